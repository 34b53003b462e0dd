import type { Part } from "./parts";
import type {
  Branch,
  CallState,
  Entry,
  Notice,
  Op,
  Options,
  PendingItem,
  QueueItem,
  Snapshot,
  ViewMessage,
  ViewState,
} from "./protocol";

/** One loaded message. `rev` rises with every change, so that a drawing can tell whether it is current. */
export interface Item {
  id: string;
  role: string;
  metadata: ViewMessage["metadata"];
  parts: Part[];
  branch: Branch | null;
  rev: number;
}

export type State = Required<Omit<ViewState, "options">>;

export const READY: State = {
  status: "ready",
  isStreaming: false,
  isServerStreaming: false,
  isToolContinuation: false,
  isRecovering: false,
  error: null,
  streamingId: null,
  held: false,
  readyToContinue: false,
  interruption: null,
  usage: null,
  canUndo: false,
  canRedo: false,
  restorable: null,
  unsaved: false,
  delivery: null,
  helloEvery: null,
  closed: null,
};

/** What has changed: a message id, a call id with "call:" before it, or one of the fixed names. */
export type Key = string;

/**
 * The view of one chat, as the kernel has told it. Operations are applied as they come; nothing is
 * numbered, named or folded here beyond appending text (spec/widget.md, section 3.2).
 */
export class Store {
  state: State = READY;
  options: Partial<Options> = {};
  order: string[] = [];
  entries = new Map<string, Item>();
  pending: PendingItem[] = [];
  queue: QueueItem[] = [];
  calls = new Map<string, CallState>();
  notices = new Map<string, Notice>();
  hasEarlier = false;
  private listeners = new Map<Key, Set<() => void>>();
  private dirty = new Set<Key>();
  private scheduled = false;
  /** Replaced in tests; the page draws once per animation frame. */
  schedule: (flush: () => void) => void = (flush) => flush();

  /** Applies the operations of one frame. Returns false if one of them is of a kind not known here. */
  apply(ops: Op[]): boolean {
    let known = true;
    for (const op of ops) known = this.applyOne(op) && known;
    return known;
  }

  private applyOne(op: Op): boolean {
    switch (op.op) {
      case "text": {
        const part = this.entries.get(op.m)?.parts[op.p];
        if (part) {
          part[op.field] = ((part[op.field] as string | undefined) ?? "") + op.d;
          this.touch(op.m);
        }
        return true;
      }
      case "part": {
        const entry = this.entries.get(op.m);
        if (entry) {
          entry.parts[op.p] = op.part as Part;
          this.touch(op.m);
        }
        return true;
      }
      case "msg":
        this.put(op.message, op.branch ?? null);
        this.place(op.message.id, op.after);
        return true;
      case "move":
        if (this.entries.has(op.m)) this.place(op.m, op.after);
        return true;
      case "drop":
        for (const id of op.ids) this.entries.delete(id);
        this.setOrder(this.order.filter((id) => this.entries.has(id)));
        return true;
      case "state":
        this.setState(op.state);
        return true;
      case "pending":
        this.setPending(op.items);
        return true;
      case "queue":
        this.queue = op.items;
        this.mark("queue");
        return true;
      case "call": {
        const { op: _, ...call } = op;
        this.calls.set(call.toolCallId, { ...this.calls.get(call.toolCallId), ...call });
        this.mark("call:" + call.toolCallId);
        return true;
      }
      case "notice": {
        const { op: _, ...notice } = op;
        if (notice.text) this.notices.set(notice.id, notice);
        else this.notices.delete(notice.id);
        this.mark("panel");
        return true;
      }
      case "change":
        return true;
      default:
        return false;
    }
  }

  /** Puts everything as a snapshot says. Entries keep their identity, so drawn nodes survive. */
  reset(snapshot: Partial<Snapshot>): void {
    const before = this.order;
    this.order = this.putAll(snapshot.messages ?? []);
    const ids = new Set(this.order);
    for (const id of before) if (!ids.has(id)) this.entries.delete(id);
    this.hasEarlier = snapshot.hasEarlier ?? false;
    const gone = [...this.calls.keys()];
    this.calls = new Map((snapshot.calls ?? []).map((call) => [call.toolCallId, call]));
    for (const id of [...gone, ...this.calls.keys()]) this.mark("call:" + id);
    this.notices = new Map((snapshot.notices ?? []).map((notice) => [notice.id, notice]));
    this.queue = snapshot.queue ?? [];
    this.setPending(snapshot.pending ?? []);
    this.setState({ ...READY, ...snapshot.state, options: snapshot.options ?? null });
    this.mark("list", "queue", "panel");
  }

  /** Puts older messages before the ones that are loaded. */
  prepend(before: string, messages: Entry[], hasEarlier: boolean): void {
    const fresh = this.putAll(messages.filter(({ message }) => !this.entries.has(message.id)));
    const at = Math.max(0, this.order.indexOf(before));
    this.order = [...this.order.slice(0, at), ...fresh, ...this.order.slice(at)];
    this.hasEarlier = hasEarlier;
    this.mark("list");
  }

  setOptions(options: Partial<Options>): void {
    this.options = { ...this.options, ...options };
    this.mark("panel");
  }

  /** The kernel is gone: what was open is closed, what was waiting for it waits no more. */
  close(): void {
    this.state = { ...this.state, isStreaming: false, isServerStreaming: false, isRecovering: false };
    if (this.state.status !== "error") this.state = { ...this.state, status: "ready" };
    for (const call of this.calls.values()) this.mark("call:" + call.toolCallId);
    const open = this.state.streamingId;
    this.state = { ...this.state, streamingId: null };
    if (open !== null) this.touch(open);
    this.mark("panel", "list");
  }

  get messages(): Item[] {
    return this.order.map((id) => this.entries.get(id)).filter((entry): entry is Item => entry !== undefined);
  }

  get isRunning(): boolean {
    const { status, isStreaming } = this.state;
    return status === "submitted" || status === "streaming" || isStreaming === true;
  }

  /** The current view as a snapshot that may be stored in a document: no decisions, no notices. */
  snapshot(newest: number): Snapshot {
    const messages = this.messages.slice(-newest);
    return {
      options: this.options as Options,
      state: { ...READY, usage: this.state.usage },
      messages: messages.map(({ id, role, metadata, parts, branch }) => ({
        message: { id, role: role as ViewMessage["role"], metadata, parts },
        branch,
      })),
      hasEarlier: this.hasEarlier || messages.length < this.order.length,
    };
  }

  subscribe(key: Key, fn: () => void): () => void {
    let set = this.listeners.get(key);
    if (set === undefined) this.listeners.set(key, (set = new Set()));
    set.add(fn);
    return () => {
      set.delete(fn);
      if (set.size === 0 && this.listeners.get(key) === set) this.listeners.delete(key);
    };
  }

  mark(...keys: Key[]): void {
    for (const key of keys) this.dirty.add(key);
    if (this.scheduled) return;
    this.scheduled = true;
    this.schedule(() => {
      this.scheduled = false;
      const changed = this.dirty;
      this.dirty = new Set();
      changed.add("any");
      for (const key of changed) for (const fn of [...(this.listeners.get(key) ?? [])]) fn();
    });
  }

  private touch(id: string): void {
    const entry = this.entries.get(id);
    if (entry) entry.rev += 1;
    this.mark(id);
  }

  /** Puts the entries, each with the further pieces that follow it, and gives their ids in order. */
  private putAll(entries: Entry[]): string[] {
    const whole: Entry[] = [];
    for (const entry of entries) {
      const last = whole.at(-1);
      if (entry.more && last) last.message = { ...last.message, parts: [...last.message.parts, ...entry.message.parts] };
      else whole.push({ ...entry });
    }
    for (const { message, branch } of whole) this.put(message, branch ?? null);
    return whole.map(({ message }) => message.id);
  }

  private put(message: ViewMessage, branch: Branch | null): void {
    const entry = this.entries.get(message.id);
    const { id, role, metadata } = message;
    const parts = message.parts as Part[];
    if (entry) Object.assign(entry, { role, metadata, parts, branch });
    else this.entries.set(id, { id, role, metadata, parts, branch, rev: 0 });
    this.touch(id);
  }

  private place(id: string, after: string | null): void {
    const rest = this.order.filter((other) => other !== id);
    const at = after === null ? 0 : rest.indexOf(after) + 1;
    // An unloaded predecessor means that the message belongs before the loaded ones, which are a suffix.
    if (after !== null && at === 0 && rest.length > 0) {
      if (!this.order.includes(id)) this.entries.delete(id);
      return;
    }
    rest.splice(at, 0, id);
    this.setOrder(rest);
  }

  /** What is last draws itself otherwise than what no longer is. */
  private setOrder(order: string[]): void {
    const before = this.order.at(-1);
    const last = order.at(-1);
    this.order = order;
    if (before !== last) for (const id of [before, last]) if (id) this.touch(id);
    this.mark("list");
  }

  private setState(state: ViewState): void {
    const { options, ...rest } = state;
    const open = this.state.streamingId;
    this.state = { ...this.state, ...rest } as State;
    if (options) this.options = { ...this.options, ...options };
    this.mark("panel");
    for (const id of [open, this.state.streamingId, this.order.at(-1)]) if (id) this.touch(id);
  }

  private setPending(items: PendingItem[]): void {
    for (const item of [...this.pending, ...items]) this.mark("call:" + item.toolCallId);
    this.pending = items;
    this.mark("pending");
  }
}
