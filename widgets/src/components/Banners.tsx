import { Fragment, h } from "preact";
import type { VNode } from "preact";
import { useApp, useCommand, useIsOff, useStore } from "../app";
import { copyText } from "../clipboard";
import type { CommandType, JsonObject } from "../parts";
import type { Notice, NoticeAction } from "../protocol";
import { visible } from "../sanitize";
import { t } from "../strings";
import { Icon } from "./Icon";
import type { IconName } from "./Icon";
import { Note } from "./Note";

/** One line across the panel: what is going on, and what can be done about it. */
function Line({ icon, level = "info", role, children }: { icon: IconName; level?: string; role?: "alert" | "status"; children: preact.ComponentChildren }): VNode {
  return (
    <div class="cn-banner" data-level={level} role={role}>
      <Icon name={icon} />
      <div>{children}</div>
    </div>
  );
}

function CommandButton({ type, label, fields, isPrimary }: { type: CommandType; label: string; fields?: JsonObject; isPrimary?: boolean }): VNode {
  const command = useCommand();
  const isOff = command.isBusy || (useIsOff() && type !== "takeOver");
  return (
    <Fragment>
      <button type="button" class={isPrimary ? "cn-button cn-primary" : "cn-button"} disabled={isOff} onClick={() => void command.run(type, fields)}>
        {label}
      </button>
      <Note of={command} />
    </Fragment>
  );
}

function NoticeButton({ action }: { action: NoticeAction }): VNode | null {
  const label = action.label ?? "";
  switch (action.kind) {
    case "restoreText":
      return null;
    case "copy":
      return (
        <button type="button" class="cn-button" onClick={() => void copyText(action.text ?? "")}>
          {label || t("copy")}
        </button>
      );
    case "restoreVariables":
      return <CommandButton type="restore" label={label || t("restore")} fields={{ toolCallId: action.toolCallId }} />;
    case "takeOver":
      return <CommandButton type="takeOver" label={label || t("takeOver")} />;
    default: {
      const { type, ...fields } = action.command ?? {};
      return typeof type === "string" ? <CommandButton type={type as CommandType} label={label} fields={fields} /> : null;
    }
  }
}

const ICONS: Record<string, IconName> = { info: "hand", warning: "alert", error: "alert" };

/** What holds for the panel as a whole, above the box. */
export function Banners(): VNode {
  const { store, connection, transport, ui } = useStore("panel", "ui");
  const { state } = store;
  const lines: VNode[] = [];
  if (connection.unsupported) lines.push(<Line icon="alert" level="warning" role="alert">{t("unsupported")}</Line>);
  else if (connection.phase === "gone") lines.push(<Line icon="alert" level="warning" role="status">{t("gone")}</Line>);
  else if (connection.phase === "readonly") lines.push(<Line icon="file">{t("saved")}</Line>);
  else if (connection.phase === "connecting" && !transport.saved()) lines.push(<Line icon="clock">{t("connecting")}</Line>);
  if (connection.phase === "waiting" && state.delivery !== "between-cells") lines.push(<Line icon="clock" role="status">{t("busy")}</Line>);
  if (connection.phase === "waiting" && state.delivery === "between-cells") lines.push(<Line icon="clock" role="status">{t("busyBetween")}</Line>);
  if (state.closed) {
    lines.push(
      <Line icon="block" level="warning" role="alert">
        {state.closed.reason === "lease-lost" ? t("leaseLost", state.closed.by ?? t("someone")) : t("closed")}{" "}
        {state.closed.reason === "lease-lost" && connection.isOpen && <CommandButton type="takeOver" label={t("takeOver")} />}
      </Line>,
    );
  }
  if (ui.failure) lines.push(<Line icon="alert" level="error" role="alert">{t("broken", ui.failure)}</Line>);
  for (const notice of store.notices.values()) lines.push(<NoticeLine key={notice.id} notice={notice} />);
  const [restorable] = state.restorable ?? [];
  if (restorable && connection.isOpen) {
    lines.push(
      <Line icon="undo">
        {t("restorable", (restorable.names ?? []).join(", "))} <CommandButton type="restore" label={t("restore")} fields={{ toolCallId: restorable.toolCallId }} />
      </Line>,
    );
  }
  return <Fragment>{lines}</Fragment>;
}

const NoticeLine = ({ notice }: { notice: Notice }): VNode => (
  <Line icon={ICONS[notice.level] ?? "hand"} level={notice.level} role={notice.level === "error" ? "alert" : "status"}>
    {visible(notice.text)} {(notice.actions ?? []).map((action, at) => <NoticeButton key={at} action={action} />)}
  </Line>
);

/** What went wrong with the last turn, or was broken off, at the end of the log. */
export function Trouble(): VNode | null {
  const { store, connection } = useApp();
  const { error, held, interruption, readyToContinue, isRecovering } = store.state;
  const isOpen = connection.isOpen;
  return (
    <Fragment>
      {interruption?.offered && !isRecovering && !store.isRunning && (
        <Line icon="alert" level="warning" role="status">
          <p>{t("interrupted")}</p>
          {interruption.text && <p class="cn-note">{visible(interruption.text)}</p>}
          {isOpen && (
            <span class="cn-actions">
              <CommandButton type="continue" label={t("continue")} isPrimary />
              <CommandButton type="discard" label={t("discard")} />
            </span>
          )}
        </Line>
      )}
      {error && (
        <Line icon="alert" level="error" role="alert">
          <p dir="auto">{visible(error.message)}</p>
          {isOpen && error.retry !== false && !store.isRunning && (
            <span class="cn-actions">
              <CommandButton type="regenerate" label={t("retry")} />
            </span>
          )}
        </Line>
      )}
      {held && isOpen && (
        <div class="cn-actions">
          <button type="button" class="cn-button" onClick={() => connection.resume()}>
            {t("showReply")}
          </button>
        </div>
      )}
      {readyToContinue && isOpen && (
        <div class="cn-actions">
          <CommandButton type="continue" label={t("continue")} isPrimary />
        </div>
      )}
    </Fragment>
  );
}

/** An empty chat: who answers, what it can do, and something to begin with. */
export function Empty(): VNode {
  const app = useApp();
  const { store, connection } = app;
  const { title, help, suggestions } = store.options;
  return (
    <div class="cn-empty">
      {title && <p class="cn-empty-title">{visible(title)}</p>}
      <p class="cn-help">{visible(help || t("help"))}</p>
      {(suggestions ?? []).length > 0 && (
        <div class="cn-suggestions">
          {(suggestions ?? []).map((text) => (
            <button type="button" class="cn-suggestion" disabled={!connection.isOpen || store.isRunning} onClick={() => app.send(text, [])}>
              {visible(text)}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
