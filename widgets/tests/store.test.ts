import { describe, expect, it } from "vitest";
import { Store } from "../src/store";
import { message, snapshotOf } from "./builders";

const filled = (...ids: string[]): Store => {
  const store = new Store();
  store.reset(snapshotOf(ids.map((id) => message(id, id))));
  return store;
};

describe("operations", () => {
  it("widget.md 3.1: msg is placed behind after; null is the first place; the same id replaces", () => {
    const store = filled("a", "b");
    store.apply([
      { op: "msg", message: { id: "c", role: "user", parts: [] }, after: "a", branch: { index: 0, count: 2 } },
      { op: "msg", message: { id: "d", role: "user", parts: [] }, after: null },
      { op: "msg", message: { id: "b", role: "assistant", parts: [{ type: "text", text: "new" }] }, after: "c" },
    ]);
    expect(store.order).toEqual(["d", "a", "c", "b"]);
    expect([store.entries.get("c")?.branch, store.entries.get("b")?.parts[0]?.text]).toEqual([{ index: 0, count: 2 }, "new"]);
  });

  it("widget.md 3.1: move places again, drop removes", () => {
    const store = filled("a", "b", "c");
    store.apply([{ op: "move", m: "c", after: "a" }, { op: "drop", ids: ["b"] }]);
    expect(store.order).toEqual(["a", "c"]);
    expect(store.entries.has("b")).toBe(false);
  });

  it("C18 of widget.md: ops for a message that is not loaded do nothing", () => {
    const store = filled("a");
    expect(store.apply([{ op: "text", m: "zz", p: 0, field: "text", d: "x" }, { op: "part", m: "zz", p: 0, part: { type: "text" } }, { op: "msg", message: { id: "y", role: "user", parts: [] }, after: "zz" }])).toBe(true);
    expect([store.order, store.entries.size]).toEqual([["a"], 1]);
  });

  it("widget.md 3.1: state overlays; a null key is null now; an empty notice goes", () => {
    const store = filled();
    store.apply([
      { op: "state", state: { status: "error", error: { stage: "model", message: "x" } } },
      { op: "state", state: { error: null, canUndo: true } },
      { op: "notice", id: "n", level: "info", text: "hello" },
      { op: "notice", id: "n", level: "info", text: "" },
    ]);
    expect(store.state).toMatchObject({ status: "error", error: null, canUndo: true });
    expect(store.notices.size).toBe(0);
  });

  it("widget.md 3.1: a message in pieces is put together", () => {
    const store = new Store();
    store.reset({ messages: [message("a", "one"), { ...message("a", "two"), more: true }, message("b", "x")] });
    expect(store.entries.get("a")?.parts.map((part) => part.text)).toEqual(["one", "two"]);
    expect(store.order).toEqual(["a", "b"]);
  });

  it("C18 of widget.md: earlier messages are put before, each once", () => {
    const store = filled("c", "d");
    store.prepend("c", [message("a", "a"), message("b", "b"), message("c", "zz")], true);
    expect([store.order, store.hasEarlier]).toEqual([["a", "b", "c", "d"], true]);
  });

  it("C19 of widget.md: a reset keeps the entries of the messages that stay", () => {
    const store = filled("a", "b");
    const entry = store.entries.get("a");
    store.reset(snapshotOf([message("a", "a")]));
    expect(store.entries.get("a")).toBe(entry);
    expect(store.entries.has("b")).toBe(false);
  });
});

describe("saved state", () => {
  it("widget.md 3.4: holds the newest messages and no decision", () => {
    const store = filled(...Array.from({ length: 60 }, (_, at) => `m${at}`));
    const snapshot = store.snapshot(50);
    expect(snapshot.messages).toHaveLength(50);
    expect(snapshot.hasEarlier).toBe(true);
    expect(JSON.stringify(snapshot)).not.toMatch(/nonce|hash|approvalId/);
  });
});
