import { h } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { useApp, useCommand, useIsOff } from "../app";
import type { JsonObject } from "../parts";
import type { PendingItem } from "../protocol";
import { formatTime, t } from "../strings";
import { Arguments } from "./CallCard";
import { SchemaForm } from "./SchemaForm";
import type { FormHandle } from "./SchemaForm";
import { Note } from "./Note";

const SETTLE = 300;

/** Asks a person to decide on a prepared call (spec/widget.md, 3.4 and 5.4). */
export function Approval({ item }: { item: PendingItem }): VNode {
  const { connection } = useApp();
  const isOff = useIsOff();
  const command = useCommand();
  const box = useRef<HTMLDivElement>(null);
  const reason = useRef<HTMLInputElement>(null);
  const form = useRef<FormHandle>(null);
  const [isEditing, setEditing] = useState(false);
  const visibleSince = useRef(Infinity);

  useEffect(() => {
    // A card that has just come into view under the pointer is not decided by a click meant for something else.
    visibleSince.current = Infinity;
    if (typeof IntersectionObserver === "undefined") {
      visibleSince.current = performance.now();
      return undefined;
    }
    const observer = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) visibleSince.current = Infinity;
        else if (visibleSince.current === Infinity) visibleSince.current = performance.now();
      }
    });
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, [item.hash]);

  const decide = (event: MouseEvent, type: "approve" | "reject"): void => {
    if (!event.isTrusted || performance.now() - visibleSince.current < SETTLE) return;
    let args: JsonObject | undefined;
    if (type === "approve" && isEditing) {
      const edited = form.current?.read();
      if (!edited) return;
      args = edited;
    }
    const text = reason.current?.value.trim();
    void command
      .run(type, {
        approvalId: item.approvalId ?? item.id,
        hash: item.hash,
        nonce: connection.nonce,
        ...(args ? { args } : {}),
        ...(type === "reject" && text ? { reason: text } : {}),
      })
      .then((result) => result && setEditing(false));
  };
  useEffect(() => {
    if (command.error?.field) form.current?.fail(command.error.message, command.error.field);
  }, [command.error]);

  const isBusy = command.isBusy || isOff;
  return (
    <div class="cn-approval" data-approval-id={item.approvalId} ref={box} tabIndex={-1}>
      {isEditing ? (
        <SchemaForm schema={item.schema ?? null} values={(item.args as JsonObject | undefined) ?? {}} label={t("argumentsJson")} handle={form} />
      ) : (
        <Arguments input={item.args} isOpen />
      )}
      {item.expiresAt && <p class="cn-note">{t("expires", formatTime(item.expiresAt))}</p>}
      <div class="cn-actions">
        <button type="button" class="cn-button cn-primary" disabled={isBusy} onClick={(event) => decide(event, "approve")}>
          {t("approve")}
        </button>
        <button type="button" class="cn-button" disabled={isBusy} aria-pressed={isEditing} onClick={() => setEditing(!isEditing)}>
          {t(isEditing ? "cancel" : "editArguments")}
        </button>
        <span class="cn-reject">
          <input ref={reason} class="cn-reason" type="text" placeholder={t("reason")} aria-label={t("reason")} disabled={isBusy} />
          <button type="button" class="cn-button" disabled={isBusy} onClick={(event) => decide(event, "reject")}>
            {t("reject")}
          </button>
        </span>
      </div>
      <Note of={command} />
    </div>
  );
}
