import { Fragment, h } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { useCommand, useIsOff, useStore } from "../app";
import type { Box } from "../box";
import { eachFile } from "../files";
import { textOf } from "../parts";
import { visible } from "../sanitize";
import { t } from "../strings";
import { IconButton } from "./Icon";
import { RunAction } from "./RunAction";
import { Note } from "./Note";

const FORMATS = { md: "Markdown", html: "HTML", json: "JSON", ipynb: "notebook" } as const;

/** The panel's title, Undo, Redo and the menu of what is seldom needed. */
export function Header({ box }: { box: Box }): VNode {
  const { store, connection, assets } = useStore("panel", "list");
  const command = useCommand();
  const [isOpen, setOpen] = useState(false);
  const [isSure, setSure] = useState(false);
  const [isCalling, setCalling] = useState(false);
  const menu = useRef<HTMLDivElement>(null);
  const { state, options } = store;
  const isRunning = store.isRunning;
  const isOff = useIsOff() || isRunning || command.isBusy;
  const why = isRunning ? t("whileRunning") : undefined;

  useEffect(() => {
    if (!isOpen) return undefined;
    setSure(false);
    menu.current?.querySelector<HTMLElement>("[role=menuitem]:not(:disabled)")?.focus();
    const close = (event: Event): void => {
      if (!event.composedPath().includes(menu.current?.parentElement as EventTarget)) setOpen(false);
    };
    document.addEventListener("pointerdown", close, true);
    return () => document.removeEventListener("pointerdown", close, true);
  }, [isOpen]);
  const close = (): void => {
    menu.current?.parentElement?.querySelector<HTMLElement>("[aria-haspopup]")?.focus();
    setOpen(false);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const items = [...(menu.current?.querySelectorAll<HTMLElement>("[role=menuitem]:not(:disabled)") ?? [])];
    const at = items.indexOf(document.activeElement as HTMLElement);
    if (event.key === "Escape") {
      event.stopPropagation();
      close();
    } else if (event.key === "ArrowDown") items[(at + 1) % items.length]?.focus();
    else if (event.key === "ArrowUp") items[(at + items.length - 1) % items.length]?.focus();
    else if (event.key === "Tab") setOpen(false);
    else return;
    if (event.key !== "Tab") event.preventDefault();
  };
  const undo = async (): Promise<void> => {
    const last = store.messages.filter((item) => item.role === "user").at(-1);
    const result = await command.run("undo");
    if (!result || !last) return;
    const text = textOf(last.parts);
    if (box.giveBack(text)) eachFile(last.parts, assets, (file) => box.text === text && box.setFiles([...box.files, file]));
  };
  const save = async (format: keyof typeof FORMATS): Promise<void> => {
    close();
    const result = await command.run("export", { format });
    if (!result) return;
    const hash = String(result.hash);
    assets.whenLoaded(hash, () => {
      const link = document.createElement("a");
      link.href = assets.url(hash) ?? "";
      link.download = String(result.filename);
      link.click();
    }, () => undefined);
  };
  const item = (label: string, isDisabled: boolean, onClick: () => void): VNode => (
    <button type="button" role="menuitem" tabIndex={-1} disabled={isDisabled} title={isDisabled && why ? why : undefined} onClick={onClick}>
      {label}
    </button>
  );
  return (
    <Fragment>
      <header class="cn-header">
        <h2 class="cn-title" dir="auto">
          {visible(options.title ?? "")}
        </h2>
        <IconButton icon="undo" label={t("undo")} isOff={isOff || !state.canUndo} why={why} onClick={() => void undo()} />
        <IconButton icon="redo" label={t("redo")} isOff={isOff || !state.canRedo} why={why} onClick={() => void command.run("redo")} />
        <div class="cn-menu-frame">
          <IconButton icon="more" label={t("more")} hasPopup isExpanded={isOpen} isOff={!connection.isOpen} onClick={() => setOpen(!isOpen)} />
          {isOpen && (
            <div class="cn-menu" role="menu" aria-label={t("more")} ref={menu} onKeyDown={onKeyDown}>
              <div role="group" aria-label={t("export")}>
                <span class="cn-label" aria-hidden="true">
                  {t("export")}
                </span>
                {(Object.keys(FORMATS) as (keyof typeof FORMATS)[]).map((format) => item(t("exportAs", FORMATS[format]), command.isBusy, () => void save(format)))}
              </div>
              {(options.actions ?? []).length > 0 &&
                item(t("runAction"), !connection.isOpen, () => {
                  setOpen(false);
                  setCalling(true);
                })}
              {item(isSure ? t("clearSure") : t("clear"), isOff || store.order.length === 0, () => {
                if (!isSure) setSure(true);
                else {
                  close();
                  void command.run("clear");
                }
              })}
            </div>
          )}
        </div>
      </header>
      <Note of={command} />
      {isCalling && <RunAction onClose={() => setCalling(false)} />}
    </Fragment>
  );
}
