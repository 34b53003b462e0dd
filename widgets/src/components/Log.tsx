import { h } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { useCommand, useStore } from "../app";
import { Scroll } from "../scroll";
import { t } from "../strings";
import type { Part } from "../parts";
import { CallCard } from "./CallCard";
import { Empty, Trouble } from "./Banners";
import { Boundary } from "./Boundary";
import { Icon } from "./Icon";
import { Message } from "./Message";

/** The conversation. It follows the end while the reader is there, and never moves under somebody who reads above. */
export function Log(): VNode {
  const app = useStore("list", "panel", "ui", "pending", "calls");
  const { store, ui, connection } = app;
  const box = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const [scroll] = useState(() => new Scroll());
  const [drawn] = useState(() => new Map<string, VNode>());
  const [unseen, setUnseen] = useState(0);
  const [isAway, setAway] = useState(false);
  const earlier = useCommand();

  useEffect(() => {
    scroll.onChange = () => {
      setAway(!scroll.isFollowing);
      if (scroll.isFollowing) setUnseen(0);
    };
    return scroll.attach(box.current as HTMLElement, content.current as HTMLElement);
  }, []);
  const jump = (): void => scroll.toEnd();
  useEffect(() => {
    app.jump = jump;
  }, []);
  const last = store.order.at(-1);
  const count = store.order.length;
  const seen = useRef({ last, count });
  const first = store.order[0];
  const anchor = useRef(first);
  if (first !== anchor.current) scroll.keep(anchor.current);
  useLayoutEffect(() => {
    if (first !== anchor.current) scroll.restore();
    anchor.current = first;
    if (last !== seen.current.last && count > seen.current.count && !scroll.isFollowing) setUnseen(unseen + count - seen.current.count);
    seen.current = { last, count };
    scroll.follow();
  });

  const { state } = store;
  const isStreaming = connection.isOpen && state.isStreaming === true;
  const hasDots = connection.isOpen && (state.status === "submitted" || (ui.isExpecting && !isStreaming)) && !state.isToolContinuation && !state.isRecovering;
  const isRecovering = connection.isOpen && state.isRecovering === true && !isStreaming;
  const loaded = new Set<string>();
  for (const item of store.messages) for (const part of item.parts) if (part?.toolCallId) loaded.add(part.toolCallId);
  const direct = [...store.calls.values()].filter((call) => call.part && !loaded.has(call.toolCallId));
  const far = store.pending.filter((item) => !loaded.has(item.toolCallId) && !direct.some((call) => call.toolCallId === item.toolCallId));
  const isEmpty = count === 0 && ui.outgoing.length === 0 && !store.hasEarlier && direct.length === 0;
  return (
    <div class="cn-log-frame">
      <div class="cn-log" ref={box} role="log" aria-label={t("conversation")} aria-live="off" aria-busy={isStreaming ? "true" : "false"} tabIndex={0}>
        <div class="cn-content" ref={content}>
          {store.hasEarlier && (
            <button
              type="button"
              class="cn-quiet cn-earlier"
              disabled={!connection.isOpen || earlier.isBusy}
              onClick={() => void earlier.run("loadEarlier", { before: store.order[0] })}
            >
              {earlier.note || t("earlier")}
            </button>
          )}
          {isEmpty && <Empty />}
          {store.order.map((id) => {
            // The same node again is not compared again: a message draws itself when it changes.
            let node = drawn.get(id);
            if (!node) {
              node = (
                <Boundary key={id}>
                  <Message id={id} />
                </Boundary>
              );
              drawn.set(id, node);
            }
            return node;
          })}
          {direct.map((call) => (
            <CallCard key={call.toolCallId} part={call.part as Part} outputs={[]} isRunning={call.phase !== "done"} />
          ))}
          {far.map((item) => (
            <CallCard
              key={item.toolCallId}
              part={{ type: "tool-" + item.action, toolCallId: item.toolCallId, state: item.kind === "approval" ? "approval-requested" : "input-available", input: item.args, title: item.title }}
              outputs={[]}
              isRunning={false}
            />
          ))}
          {ui.outgoing.map((line) => (
            <article key={line.id} class="cn-message" data-role="user" data-sending="" aria-label={t("you")}>
              <div class="cn-body">
                <p class="cn-words" dir="auto">
                  {line.text}
                </p>
              </div>
              <span class="cn-badge">{t("sending")}</span>
            </article>
          ))}
          {hasDots && (
            <div class="cn-dots" role="img" aria-label={t("replyStarted")}>
              <i />
              <i />
              <i />
            </div>
          )}
          {isRecovering && (
            <p class="cn-note cn-recovering">
              <Icon name="spin" /> {t("recovering")}
            </p>
          )}
          <Trouble />
        </div>
      </div>
      {isAway && !isEmpty && (
        <button type="button" class="cn-jump" onClick={jump}>
          <Icon name="down" /> {t("jump")}
          {unseen > 0 && <span class="cn-count">{t("newMessages", unseen)}</span>}
        </button>
      )}
    </div>
  );
}
