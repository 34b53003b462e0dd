import { Assets } from "../src/assets";
import { Connection } from "../src/connection";
import type { JsonObject } from "../src/parts";
import type { Entry, Frame, Op, Snapshot } from "../src/protocol";
import { READY, Store } from "../src/store";
import type { Transport } from "../src/transport";

export const message = (id: string, text: string, role: "user" | "assistant" = "assistant"): Entry => ({
  message: { id, role, parts: [{ type: "text", text }] },
});

export const snapshotOf = (messages: Entry[], more: Partial<Snapshot> = {}): Snapshot => ({
  options: null,
  state: { ...READY },
  pending: [],
  queue: [],
  calls: [],
  notices: [],
  messages,
  hasEarlier: false,
  ...more,
});

/** A comm without a host: what the page sends is kept, what the kernel says is put in by hand. */
export class FakeTransport implements Transport {
  sent: JsonObject[] = [];
  isGone = false;
  private receive: (content: unknown, buffers: DataView[]) => void = () => undefined;
  private die: () => void = () => undefined;

  send(content: JsonObject): void {
    if (this.isGone) throw new Error("Cannot send");
    this.sent.push(content);
  }

  onMessage(fn: (content: unknown, buffers: DataView[]) => void): () => void {
    this.receive = fn;
    return () => undefined;
  }

  onGone(fn: () => void): () => void {
    this.die = fn;
    return () => undefined;
  }

  options = (): object => ({});
  onOptions = () => () => undefined;
  saved = (): Snapshot | null => null;
  save = (): void => undefined;

  say(frame: JsonObject, epoch = "e1"): void {
    this.receive({ v: 1, epoch, ...frame } as Frame, []);
  }

  lose(): void {
    this.isGone = true;
    this.die();
  }

  of(type: string): JsonObject[] {
    return this.sent.filter((command) => command.type === type);
  }
}

/** A connection with a transport and a store, greeted or not. */
export function connect(): { transport: FakeTransport; store: Store; connection: Connection; greet(messages: Entry[], seq?: number, more?: Partial<Snapshot>): void; ops(seq: number, ...ops: Op[]): void } {
  const transport = new FakeTransport();
  const store = new Store();
  const connection = new Connection(transport, store, new Assets(), () => ({ locale: "en", dark: false, canInsert: false }));
  connection.start();
  return {
    transport,
    store,
    connection,
    greet(messages, seq = 0, more = {}) {
      transport.say({ type: "secret", to: connection.view, nonce: "n".repeat(32) });
      transport.say({ type: "reset", to: connection.view, seq, snapshot: snapshotOf(messages, more), reason: "hello", index: 0, count: 1 });
    },
    ops(seq, ...ops) {
      transport.say({ type: "ops", seq, ops });
    },
  };
}

/** Random numbers that a failing test can repeat. */
export function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) % 4294967296;
    return state / 4294967296;
  };
}
