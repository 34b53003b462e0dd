import { h } from "preact";
import type { VNode } from "preact";
import { useCommand, useIsOff, useStore } from "../app";
import type { CommandType, JsonObject } from "../parts";
import { textOf } from "../parts";
import type { Item } from "../store";
import { formatNumber, t } from "../strings";
import { CopyButton } from "./Code";
import { IconButton } from "./Icon";
import { Note } from "./Note";

/** Tokens and cost in words; what is unknown is left out, never 0. */
export function usageText(usage: JsonObject | null | undefined): string {
  if (!usage) return "";
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
  ]
    .filter(Boolean)
    .join(" · ");
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
  const usage = usageText(store.state.usage?.messages?.[item.id]);
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
      {!isHidden && (
        <span class="cn-toolbar">
          {item.role === "user" && <IconButton icon="edit" label={t("edit")} isOff={isOff} why={why} onClick={onEdit} />}
          {item.role === "assistant" && <IconButton icon="again" label={t("regenerate")} isOff={isOff} why={why} onClick={run("regenerate")} />}
          <CopyButton text={() => textOf(item.parts)} label={t("copy")} isIcon />
          <IconButton icon="trash" label={t("delete")} isOff={isOff} why={why} onClick={run("remove")} />
          <IconButton icon="back" label={t("rollback")} isOff={isOff} why={why} onClick={run("rollback")} />
        </span>
      )}
      {usage && <span class="cn-usage">{usage}</span>}
      <Note of={command} />
    </footer>
  );
}
