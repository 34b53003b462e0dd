import { h } from "preact";
import { useRef } from "preact/hooks";
import type { VNode } from "preact";
import { useApp, useCommand, useIsOff } from "../app";
import type { JsonObject } from "../parts";
import type { PendingItem } from "../protocol";
import { t } from "../strings";
import { SchemaForm } from "./SchemaForm";
import type { FormHandle } from "./SchemaForm";
import { Note } from "./Note";

/** A client-side call that waits: a form whose answer is its output, or only the way to refuse it. */
export function ClientForm({ item }: { item: PendingItem }): VNode {
  const { store, runTool } = useApp();
  const form = useRef<FormHandle>(null);
  const command = useCommand();
  const isBusy = useIsOff() || command.isBusy;
  const schema = (typeof item.form === "object" && item.form !== null ? item.form : (item.schema ?? null)) as JsonObject | null;
  const submit = (): void => {
    const output = form.current?.read();
    if (output) void command.run("toolOutput", { toolCallId: item.toolCallId, output });
  };
  return (
    <div class="cn-approval" role="group" aria-label={item.title || item.action}>
      {item.form && <SchemaForm schema={schema} values={{}} label={t("answerJson")} handle={form} />}
      <div class="cn-actions">
        {item.form && (
          <button type="button" class="cn-button cn-primary" disabled={isBusy} onClick={submit}>
            {t("submit")}
          </button>
        )}
        {store.options.clientTools?.some((tool) => tool.name === item.action && tool.js) && !store.state.isStreaming && (
          <button type="button" class="cn-button" disabled={isBusy} onClick={() => runTool({ toolCallId: item.toolCallId, name: item.action, input: item.args })}>
            {t("runAgain")}
          </button>
        )}
        <button type="button" class="cn-button" disabled={isBusy} onClick={() => void command.run("toolError", { toolCallId: item.toolCallId, text: "Rejected." })}>
          {t("reject")}
        </button>
      </div>
      <Note of={command} />
    </div>
  );
}
