import { Fragment, h } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { useApp, useCommand, useStore } from "../app";
import type { Box } from "../box";
import type { ExtraModules } from "../extras";
import { ACCEPT, pick } from "../files";
import { textOf } from "../parts";
import type { QueueItem } from "../protocol";
import { visible } from "../sanitize";
import { formatNumber, t } from "../strings";
import { Icon, IconButton } from "./Icon";
import { Dotted, usageTexts } from "./Toolbar";
import { Note } from "./Note";

function Waiting({ item, box }: { item: QueueItem; box: Box }): VNode {
  const command = useCommand();
  const remove = async (): Promise<void> => {
    const result = await command.run("cancel", { inputId: item.id });
    if (result) box.giveBack(typeof result.text === "string" ? result.text : item.text);
  };
  return (
    <li>
      <span dir="auto">{visible(item.text)}</span>
      <Note of={command} />
      <button type="button" class="cn-quiet" disabled={command.isBusy} onClick={() => void remove()}>
        {t("remove")}
      </button>
    </li>
  );
}

function Decisions(): VNode | null {
  const { store, root, connection } = useApp();
  const asks = store.pending.filter((item) => item.kind === "approval");
  if (asks.length === 0 || !connection.isOpen || store.state.closed) return null;
  const lead = (): void => {
    const card = root.querySelector<HTMLElement>(".cn-approval");
    card?.scrollIntoView({ block: "center" });
    card?.focus({ preventScroll: true });
  };
  return (
    <button type="button" class="cn-decisions" onClick={lead}>
      <Icon name="hand" />
      {asks.length === 1 ? t("oneDecision") : t("decisions", asks.length)}
    </button>
  );
}

/** The box for writing, with its files, what waits behind it, and Send or Stop. */
export function Composer({ box }: { box: Box }): VNode {
  const app = useStore("panel", "ui", "queue", "pending", "box");
  const { store, connection, ui } = app;
  const area = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const stop = useRef<HTMLButtonElement>(null);
  const isOff = !connection.isOpen || store.state.closed !== null;
  const isRunning = connection.isOpen && (store.isRunning || ui.isExpecting);
  const { options } = store;

  const names = useRef<HTMLDivElement>(null);
  const [mentions, setMentions] = useState<ReturnType<ExtraModules["mentions"]["create"]> | null>(null);
  const wantsMentions = options.mentions === true && box.text.includes("@");
  useEffect(() => {
    if (!wantsMentions || mentions || !names.current) return;
    const frame = names.current;
    void app.extras.load("mentions").then((extra) => extra && setMentions(extra.create(frame, box, connection, (count) => t("tokens", formatNumber(count)))));
  }, [wantsMentions]);
  useEffect(() => mentions?.update());

  useLayoutEffect(() => {
    const element = area.current;
    if (!element) return;
    box.area = element;
    // Where the browser sizes the box itself, no key costs a layout of its own.
    if (CSS.supports("field-sizing: content")) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight + 2, 180)}px`;
  });
  useEffect(() => {
    // Stop is gone: whoever stood on it stands in the box.
    if (!isRunning && stop.current === null && document.activeElement === document.body && box.hadStop) area.current?.focus();
    box.hadStop = false;
  }, [isRunning]);

  const submit = (): void => {
    if (isOff || box.afterwards) return;
    const text = box.text;
    if (text.trim() === "" && box.files.length === 0) return;
    const { files } = box;
    box.clear();
    app.send(text, files);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.isComposing || event.keyCode === 229) return;
    if (box.mentionKey?.(event)) {
      event.preventDefault();
      return;
    }
    if (event.key === "Enter" && !event.shiftKey && !event.ctrlKey && !event.altKey && !event.metaKey) {
      event.preventDefault();
      submit();
    } else if (event.key === "ArrowUp" && box.text === "") {
      const own = store.messages.filter((item) => item.role === "user").at(-1);
      if (own) {
        event.preventDefault();
        box.set(textOf(own.parts));
      }
    }
  };
  const add = (files: FileList | File[] | null | undefined): void => {
    if (!files || files.length === 0 || isOff || options.allowAttachments === false) return;
    const { accepted, errors } = pick(box.files, [...files], options.maxAttachmentBytes ?? 5_000_000);
    box.setFiles(accepted);
    ui.inputError = errors.join(" ");
    store.mark("ui");
  };
  useLayoutEffect(() => {
    // Wherever in the panel a file is dropped, the page stays.
    app.root.ondragover = (event) => {
      if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
    };
    app.root.ondrop = (event) => {
      if (!event.dataTransfer?.files.length) return;
      event.preventDefault();
      add(event.dataTransfer.files);
    };
  });
  return (
    <div class="cn-composer">
      {store.queue.length > 0 && (
        <ul class="cn-waiting" aria-label={t("waitingList")}>
          {store.queue.map((item) => (
            <Waiting key={item.id} item={item} box={box} />
          ))}
        </ul>
      )}
      <Decisions />
      {ui.inputError && (
        <p class="cn-error" role="alert">
          {ui.inputError}
        </p>
      )}
      <div class="cn-box-frame">
        {box.files.length > 0 && (
          <div class="cn-files">
            {box.files.map((file) => (
              <span class="cn-chip" key={file.name + file.size}>
                <Icon name={/^image/.test(file.type) ? "image" : "file"} />
                <span dir="auto">{visible(file.name)}</span>
                <IconButton icon="close" label={t("removeFile", visible(file.name))} onClick={() => box.setFiles(box.files.filter((other) => other !== file))} />
              </span>
            ))}
          </div>
        )}
        <div ref={names} hidden />
        <textarea
          ref={area}
          aria-label={t("message")}
          placeholder={options.placeholder || t("placeholder")}
          rows={1}
          dir={box.text ? "auto" : undefined}
          value={box.text}
          readOnly={isOff && connection.phase !== "connecting"}
          onInput={(event) => box.set(event.currentTarget.value)}
          onKeyDown={onKeyDown}
          onSelect={() => mentions?.update()}
          onCompositionStart={() => (box.afterwards = [])}
          onCompositionEnd={() => box.release()}
          onPaste={(event) => {
            if (event.clipboardData?.files.length) {
              event.preventDefault();
              add(event.clipboardData.files);
            }
          }}
        />
        <div class="cn-bar">
          {options.allowAttachments !== false && (
            <Fragment>
              <IconButton icon="attach" label={t("attach")} isOff={isOff} onClick={() => picker.current?.click()} />
              <input
                ref={picker}
                type="file"
                hidden
                multiple
                accept={ACCEPT}
                onChange={(event) => {
                  add(event.currentTarget.files);
                  event.currentTarget.value = "";
                }}
              />
            </Fragment>
          )}
          <span class="cn-bar-text">
            <Dotted texts={[...usageTexts(store.state.usage?.total), options.modelNote]} />
          </span>
          {isRunning ? (
            <button
              ref={stop}
              key="stop"
              type="button"
              class="cn-send"
              data-stop=""
              aria-label={t("stop")}
              title={t("stop")}
              onClick={() => {
                box.hadStop = true;
                app.stop();
              }}
            >
              <Icon name="stop" />
            </button>
          ) : (
            <button key="send" type="button" class="cn-send" aria-label={t("send")} title={t("send")} disabled={isOff || (box.text.trim() === "" && box.files.length === 0)} onClick={submit}>
              <Icon name="send" />
            </button>
          )}
        </div>
      </div>
    </div>
  );
}
