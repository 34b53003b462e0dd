import { textOf } from "./parts";
import type { Store } from "./store";
import { t } from "./strings";

/** Tells a screen reader what has happened, in few words, and never a token (spec/widget.md, section 6). */
export class Speaker {
  private wasStreaming = false;
  private asked = new Set<string>();
  private waiting = 0;

  constructor(
    private readonly region: HTMLElement,
    private readonly store: Store,
  ) {}

  /** Takes what is there at first as known: nothing is told about the past. */
  reset(): void {
    this.wasStreaming = this.store.state.streamingId !== null;
    this.asked = new Set(this.store.pending.map((item) => item.id));
    this.waiting = this.store.queue.length;
  }

  update(): void {
    const { state, pending, queue } = this.store;
    const isStreaming = state.status === "streaming";
    const said: string[] = [];
    if (isStreaming && !this.wasStreaming) said.push(t("replyStarted"));
    if (!isStreaming && this.wasStreaming && state.status === "ready") {
      const last = this.store.messages.at(-1);
      said.push(t("replyDone", last?.role === "assistant" ? textOf(last.parts).slice(0, 500) : ""));
    }
    this.wasStreaming = isStreaming;
    for (const item of pending) {
      if (!this.asked.has(item.id) && item.kind === "approval") said.push(t("approvalNeeded", item.action));
      this.asked.add(item.id);
    }
    if (queue.length !== this.waiting && queue.length > 0) said.push(t("queued", queue.length));
    this.waiting = queue.length;
    if (said.length > 0) this.region.textContent = said.join(" ");
  }
}
