import { h } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { useApp, useCommand } from "../app";
import { visible } from "../sanitize";
import { t } from "../strings";
import { IconButton } from "./Icon";
import { SchemaForm } from "./SchemaForm";
import type { FormHandle } from "./SchemaForm";

/** Calls any action with a form of its schema; what comes of it is a card in the panel, not in the history. */
export function RunAction({ onClose }: { onClose: () => void }): VNode {
  const { store, connection } = useApp();
  const actions = store.options.actions ?? [];
  const [name, setName] = useState(actions[0]?.name ?? "");
  const command = useCommand();
  const form = useRef<FormHandle>(null);
  const select = useRef<HTMLSelectElement>(null);
  const action = actions.find((other) => other.name === name);
  useEffect(() => select.current?.focus(), []);
  useEffect(() => {
    if (command.error) form.current?.fail(command.error.message, command.error.field);
  }, [command.error]);
  const run = async (event: MouseEvent): Promise<void> => {
    if (!event.isTrusted) return;
    const args = form.current?.read();
    if (args && (await command.run("call", { name, args, nonce: connection.nonce }))) onClose();
  };
  return (
    <section
      class="cn-run"
      aria-label={t("runAction")}
      onKeyDown={(event) => {
        if (event.key === "Escape") {
          event.stopPropagation();
          onClose();
        }
      }}
    >
      <div class="cn-run-head">
        <select ref={select} aria-label={t("runAction")} value={name} onChange={(event) => setName(event.currentTarget.value)}>
          {actions.map((other) => (
            <option key={other.name} value={other.name}>
              {other.title || other.name}
            </option>
          ))}
        </select>
        <IconButton icon="close" label={t("cancel")} onClick={onClose} />
      </div>
      {action?.description && <p class="cn-note">{visible(action.description)}</p>}
      {action && <SchemaForm key={name} schema={action.schema} values={{}} label={t("argumentsJson")} handle={form} />}
      <div class="cn-actions">
        <button type="button" class="cn-button cn-primary" disabled={command.isBusy || !action} onClick={(event) => void run(event)}>
          {t("run")}
        </button>
        {command.note && !command.error && <span class="cn-note">{command.note}</span>}
      </div>
    </section>
  );
}
