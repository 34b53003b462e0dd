import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Op } from "../src/protocol";
import { Store } from "../src/store";
import { connect, message, random, snapshotOf } from "./builders";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const add = (d: string): Op => ({ op: "text", m: "a", p: 0, field: "text", d });
const text = (store: Store): unknown => store.entries.get("a")?.parts[0]?.text;

describe("hello", () => {
  it("widget.md 3.3: is said when drawn, every 250 ms for 2 s, then each second, until answered", () => {
    const { transport, greet } = connect();
    expect(transport.of("hello")).toHaveLength(1);
    vi.advanceTimersByTime(2000);
    expect(transport.of("hello")).toHaveLength(9);
    vi.advanceTimersByTime(3000);
    expect(transport.of("hello")).toHaveLength(12);
    greet([]);
    vi.advanceTimersByTime(5000);
    expect(transport.of("hello")).toHaveLength(12);
  });

  it("C14 of widget.md: a later answer to an earlier hello changes nothing", () => {
    const { store, greet, ops } = connect();
    greet([message("a", "one")], 3);
    ops(4, add(" two"));
    greet([message("a", "one")], 3);
    expect(text(store)).toBe("one two");
    ops(5, add(" three"));
    expect(text(store)).toBe("one two three");
  });

  it("widget.md 3.3: no ops count before the answer, and those after its number are kept", () => {
    const { store, greet, ops } = connect();
    ops(5, add("!"));
    ops(6, add("?"));
    expect(store.order).toEqual([]);
    greet([message("a", "x!")], 5);
    expect(text(store)).toBe("x!?");
  });

  it("widget.md 3.3: a command is not sent before the kernel has answered", () => {
    const { transport, connection, greet } = connect();
    void connection.command("stop");
    expect(transport.of("stop")).toHaveLength(0);
    greet([]);
    expect(transport.of("stop")[0]).toMatchObject({ epoch: "e1", view: connection.view });
  });
});

describe("a page that is left", () => {
  it("widget.md 3.2: says bye for its views, and hello again if it comes back as it was", () => {
    const { transport, greet, connection } = connect();
    greet([]);
    const before = transport.of("hello").length;
    dispatchEvent(new Event("pagehide"));
    expect(transport.of("bye")).toMatchObject([{ view: connection.view }]);
    dispatchEvent(new Event("pageshow"));
    vi.advanceTimersByTime(600);
    expect(transport.of("hello").length).toBeGreaterThan(before);
    greet([]);
    connection.stop();
    expect(transport.of("bye")).toHaveLength(2);
    dispatchEvent(new Event("pagehide"));
    expect(transport.of("bye")).toHaveLength(2);
  });
});

describe("loss", () => {
  it("C9 of widget.md: a gap asks for the state once per 500 ms and applies nothing until it comes", () => {
    const { transport, store, greet, ops } = connect();
    greet([message("a", "x")]);
    vi.advanceTimersByTime(1000);
    const before = transport.of("hello").length;
    ops(1, add("1"));
    ops(3, add("3"));
    ops(4, add("4"));
    expect(text(store)).toBe("x1");
    vi.advanceTimersByTime(1);
    expect(transport.of("hello")).toHaveLength(before + 1);
    expect(transport.of("hello").at(-1)).toMatchObject({ last: { epoch: "e1", seq: 1 } });
    greet([message("a", "x123")], 3);
    expect(text(store)).toBe("x1234");
  });

  it("widget.md 3.1: a mark above the last number finds a lost last frame", () => {
    const { transport, greet } = connect();
    greet([]);
    vi.advanceTimersByTime(1000);
    const before = transport.of("hello").length;
    transport.say({ type: "mark", seq: 2 });
    vi.advanceTimersByTime(600);
    expect(transport.of("hello").length).toBeGreaterThan(before);
  });

  it("widget.md 3.1: a view that believes a turn runs and hears nothing for 5 s says hello", () => {
    const { transport, greet, store } = connect();
    greet([], 0, { state: { status: "streaming" } });
    expect(store.isRunning).toBe(true);
    const before = transport.of("hello").length;
    vi.advanceTimersByTime(7000);
    expect(transport.of("hello")).toHaveLength(before + 1);
  });

  it("widget.md 8: where a host delivers nothing by itself a view says hello every 2 s", () => {
    const { transport, greet } = connect();
    greet([], 0, { state: { helloEvery: 2000 } });
    const before = transport.of("hello").length;
    vi.advanceTimersByTime(10_000);
    expect(transport.of("hello").length - before).toBe(5);
  });

  it("C37 of widget.md: a reset in pieces is applied when all have come, in order; one lost means hello again", () => {
    const { transport, connection, store, ops } = connect();
    const piece = (index: number, ids: string[]): void =>
      transport.say({ type: "reset", to: connection.view, seq: 7, snapshot: index === 0 ? snapshotOf(ids.map((id) => message(id, id))) : { messages: ids.map((id) => message(id, id)) }, reason: "hello", index, count: 3 });
    piece(1, ["b"]);
    piece(0, ["a"]);
    ops(8, add("!"));
    const before = transport.of("hello").length;
    vi.advanceTimersByTime(1600);
    expect(transport.of("hello").length).toBeGreaterThan(before);
    piece(0, ["a"]);
    piece(1, ["b"]);
    piece(2, ["c"]);
    expect(store.order).toEqual(["a", "b", "c"]);
    expect(text(store)).toBe("a!");
  });

  it("widget.md 3.4: an unknown op is skipped and one reset asked for", () => {
    const { transport, greet, ops, store } = connect();
    greet([message("a", "x")]);
    vi.advanceTimersByTime(1000);
    const before = transport.of("hello").length;
    ops(1, { op: "sparkle" } as unknown as Op, add("1"));
    vi.advanceTimersByTime(1);
    expect(text(store)).toBe("x1");
    expect(transport.of("hello")).toHaveLength(before + 1);
  });

  it("widget.md 10: whatever is dropped, doubled or reordered, after quiet the view equals the kernel", () => {
    for (let seed = 1; seed <= 100; seed += 1) {
      const next = random(seed);
      const { transport, connection, store, greet, ops } = connect();
      let kernel = "";
      let seq = 0;
      greet([message("a", kernel)], seq);
      const late: (() => void)[] = [];
      for (let i = 0; i < 60; i += 1) {
        kernel += String.fromCharCode(97 + (i % 26));
        seq += 1;
        const frame = ((at: number, d: string) => () => ops(at, add(d)))(seq, kernel.slice(-1));
        const fate = next();
        if (fate < 0.1) continue;
        if (fate < 0.2) late.push(frame);
        else frame();
        if (fate > 0.9) frame();
        if (late.length > 0 && next() < 0.4) late.shift()?.();
        vi.advanceTimersByTime(20);
        const hello = transport.of("hello").at(-1);
        if (hello && next() < 0.5) greet([message("a", kernel)], seq);
      }
      for (let i = 0; i < 4; i += 1) {
        transport.say({ type: "mark", seq });
        const asked = transport.of("hello").length;
        vi.advanceTimersByTime(1200);
        if (transport.of("hello").length > asked) greet([message("a", kernel)], seq);
      }
      expect(text(store), `seed ${seed}`).toBe(kernel);
      connection.stop();
    }
  });
});

describe("commands", () => {
  it("widget.md 3.2: without ack a command goes again with the same id after 2, 4, 8, then every 10 s", () => {
    const { transport, connection, greet } = connect();
    greet([]);
    void connection.command("stop");
    const times: number[] = [];
    for (let second = 1; second <= 34; second += 1) {
      const before = transport.of("stop").length;
      vi.advanceTimersByTime(1000);
      if (transport.of("stop").length > before) times.push(second);
    }
    expect(times).toEqual([2, 6, 14, 24, 34]);
    expect(new Set(transport.of("stop").map((command) => command.id)).size).toBe(1);
  });

  it("widget.md 3.2: commands that change the history go one at a time; stop and decisions do not wait", async () => {
    const { transport, connection, greet } = connect();
    greet([]);
    const first = connection.command("send", { text: "a" });
    void connection.command("undo");
    void connection.command("stop");
    void connection.command("approve", { approvalId: "x" });
    expect(transport.sent.map(({ type }) => type).filter((type) => type !== "hello")).toEqual(["send", "stop", "approve"]);
    transport.say({ type: "ack", to: connection.view, id: transport.of("send")[0]?.id, ok: true, result: { inputId: "i" } });
    expect(await first).toEqual({ inputId: "i" });
    expect(transport.of("undo")).toHaveLength(1);
  });

  it("widget.md 3.3: one second without ack is told at the control, and taken back with the ack", () => {
    const { transport, connection, greet } = connect();
    greet([]);
    const told: boolean[] = [];
    void connection.command("stop", {}, { onWaiting: (isWaiting) => told.push(isWaiting) });
    vi.advanceTimersByTime(1000);
    expect([told, connection.phase]).toEqual([[true], "waiting"]);
    transport.say({ type: "ack", to: connection.view, id: transport.of("stop")[0]?.id, ok: true });
    expect([told, connection.phase]).toEqual([[true, false], "live"]);
  });

  it("C11 of widget.md: a stale epoch is refused and the view says hello to the new one", async () => {
    const { transport, connection, greet, store } = connect();
    greet([message("a", "old")]);
    vi.advanceTimersByTime(1000);
    const done = connection.command("edit", { messageId: "a", text: "x" });
    const before = transport.of("hello").length;
    transport.say({ type: "ack", to: connection.view, id: transport.of("edit")[0]?.id, ok: false, error: { code: "stale_epoch", message: "The kernel is a new one." } }, "e2");
    await expect(done).rejects.toMatchObject({ code: "stale_epoch" });
    vi.advanceTimersByTime(1);
    expect(transport.of("hello").length).toBe(before + 1);
    transport.say({ type: "secret", to: connection.view, nonce: "2" }, "e2");
    transport.say({ type: "reset", to: connection.view, seq: 0, snapshot: snapshotOf([message("a", "new")]), reason: "hello", index: 0, count: 1 }, "e2");
    expect([text(store), connection.epoch, connection.nonce]).toEqual(["new", "e2", "2"]);
  });

  it("C12 of widget.md: with the kernel gone nothing is sent, waiting commands end, and the text stays", async () => {
    const { transport, connection, greet, store } = connect();
    greet([message("a", "kept")], 0, { state: { status: "streaming", isStreaming: true, streamingId: "a" } });
    const waiting = connection.command("stop");
    transport.lose();
    await expect(waiting).rejects.toMatchObject({ code: "closed" });
    await expect(connection.command("undo")).rejects.toMatchObject({ code: "closed" });
    expect([connection.phase, store.isRunning, text(store)]).toEqual(["gone", false, "kept"]);
  });

  it("widget.md 3.4: unsupported ends all sending", () => {
    const { transport, connection } = connect();
    transport.say({ type: "unsupported", to: connection.view, versions: [9], package: "9.0" });
    const before = transport.sent.length;
    vi.advanceTimersByTime(20_000);
    expect(transport.sent).toHaveLength(before);
  });
});

describe("assets", () => {
  it("widget.md 3.1: while others come none is asked for again; what stays out is, once the line is quiet", () => {
    const { transport, connection, greet } = connect();
    greet([]);
    const piece = (hash: string): void => {
      const frame = { type: "asset" as const, v: 1, epoch: "e1", hash, mediaType: "image/png", index: 0, count: 1 };
      connection.assets.add(frame, new DataView(new ArrayBuffer(8)));
    };
    const hashes = Array.from({ length: 40 }, (_, n) => `line-${n}`);
    for (const hash of hashes) connection.assets.whenLoaded(hash, () => undefined);
    for (const hash of hashes) {
      vi.advanceTimersByTime(34);
      if (hash !== "line-7") piece(hash);
    }
    expect(transport.of("getAsset")).toEqual([]);
    vi.advanceTimersByTime(500);
    expect(transport.of("getAsset").map((command) => command.hash)).toEqual(["line-7"]);
  });
});
