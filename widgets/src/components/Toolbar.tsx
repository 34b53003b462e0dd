import { Fragment, h } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { VNode } from "preact";
import { useCommand, useIsOff, useStore } from "../app";
import type { CommandType, JsonObject } from "../parts";
import { textOf } from "../parts";
import type { Item } from "../store";
import { formatNumber, t } from "../strings";
import { CopyButton } from "./Code";
import { IconButton } from "./Icon";
import { Note } from "./Note";

/** Short texts in a row, each in its own direction. */
export const Dotted = ({ texts }: { texts: (string | null | undefined)[] }): VNode => (
  <Fragment>
    {texts.filter(Boolean).map((text, at) => (
      <Fragment key={at}>
        {at > 0 && " · "}
        <bdi>{text}</bdi>
      </Fragment>
    ))}
  </Fragment>
);

/** Tokens and cost in words; what is unknown is left out, never 0. */
export function usageTexts(usage: JsonObject | null | undefined): string[] {
  if (!usage) return [];
  const read = (name: string): number | undefined => {
    const value: unknown = usage[name] ?? usage[name.replace(/[A-Z]/g, (letter) => "_" + letter.toLowerCase())];
    return typeof value === "number" ? value : undefined;
  };
  const input = read("inputTokens");
  const output = read("outputTokens");
  const total = read("totalTokens") ?? (input === undefined && output === undefined ? undefined : (input ?? 0) + (output ?? 0));
  const cost = read("cost");
  return [
    total === undefined ? "" : t("tokens", formatNumber(total)),
    !cost ? "" : formatNumber(cost, { style: "currency", currency: "USD", maximumFractionDigits: cost < 0.1 ? 4 : 2 }),
  ].filter(Boolean);
}

function whenIdle(fn: () => void): void {
  if (typeof requestIdleCallback === "function") requestIdleCallback(fn, { timeout: 500 });
  else setTimeout(fn, 50);
}

/** What can be done with one message, its siblings, and what its turn used. */
export function Toolbar({ item, isHidden, onEdit }: { item: Item; isHidden: boolean; onEdit: () => void }): VNode {
  const { store } = useStore("panel");
  const command = useCommand();
  const isRunning = store.isRunning;
  const isOff = useIsOff() || isRunning || command.isBusy;
  const why = isRunning ? t("whileRunning") : undefined;
  const run = (type: CommandType, extra: JsonObject = {}) => () => void command.run(type, { messageId: item.id, ...extra });
  const { branch } = item;
  // The buttons are most of a short message's nodes: fifty messages are there sooner when these come after.
  const [isDrawn, setDrawn] = useState(false);
  useEffect(() => whenIdle(() => setDrawn(true)), []);
  const usage = usageTexts(store.state.usage?.messages?.[item.id]);
  return (
    <footer class="cn-foot" data-hidden={isHidden ? "" : undefined}>
      {branch && branch.count > 1 && (
        <span class="cn-branches" role="group" aria-label={t("branches")}>
          <IconButton
            icon="left"
            label={t("previous")}
            isOff={isOff || branch.index <= 0}
            why={why}
            onClick={run("switch", { index: branch.index - 1 })}
          />
          <span class="cn-count">
            {branch.index + 1}/{branch.count}
          </span>
          <IconButton
            icon="right"
            label={t("next")}
            isOff={isOff || branch.index >= branch.count - 1}
            why={why}
            onClick={run("switch", { index: branch.index + 1 })}
          />
        </span>
      )}
      {isDrawn && !isHidden && (
        <span class="cn-toolbar">
          {item.role === "user" && <IconButton icon="edit" label={t("edit")} isOff={isOff} why={why} onClick={onEdit} />}
          {item.role === "assistant" && <IconButton icon="again" label={t("regenerate")} isOff={isOff} why={why} onClick={run("regenerate")} />}
          <CopyButton text={() => textOf(item.parts)} label={t("copy")} isIcon />
          <IconButton icon="trash" label={t("delete")} isOff={isOff} why={why} onClick={run("remove")} />
          <IconButton icon="back" label={t("rollback")} isOff={isOff} why={why} onClick={run("rollback")} />
        </span>
      )}
      {usage.length > 0 && (
        <span class="cn-usage">
          <Dotted texts={usage} />
        </span>
      )}
      <Note of={command} />
    </footer>
  );
}
