import type { Options, Snapshot } from "./protocol";
import { cellInserter } from "./cells";
import type { Transport } from "./transport";

/** What anywidget hands over; only this much of it is used. */
export interface AnyModel {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  send(content: unknown, callbacks?: unknown, buffers?: ArrayBuffer[]): void;
  on(event: string, fn: (...args: never[]) => void): void;
  off(event: string, fn: (...args: never[]) => void): void;
  /** The host's own object; what it has differs from host to host. */
  widget_manager?: unknown;
}

const OPTIONS = ["height", "theme", "placeholder", "title", "suggestions"] as const;

/** A comm as transport. The page never writes a trait back: no `save_changes` anywhere. */
export function commTransport(model: AnyModel, element: HTMLElement): Transport {
  const listen = (event: string, fn: (...args: never[]) => void): (() => void) => {
    model.on(event, fn);
    return () => model.off(event, fn);
  };
  const options = (): Partial<Options> => {
    const found: Record<string, unknown> = {};
    for (const name of OPTIONS) {
      const value = model.get(name);
      if (value !== undefined && value !== null) found[name] = value;
    }
    return found;
  };
  return {
    send: (content, buffers) => model.send(content, undefined, buffers),
    onMessage: (fn) => listen("msg:custom", ((content: unknown, buffers?: DataView[]) => fn(content, buffers ?? [])) as (...args: never[]) => void),
    onGone: (fn) => listen("comm_live_update", fn),
    options,
    onOptions(fn) {
      const ends = OPTIONS.map((name) => listen("change:" + name, () => fn(options())));
      return () => ends.forEach((end) => end());
    },
    saved() {
      const value = model.get("_snapshot") as Snapshot | null | undefined;
      return value && Array.isArray(value.messages) && value.messages.length > 0 ? value : null;
    },
    save: (snapshot) => model.set("_snapshot", snapshot),
    insertCell: cellInserter(model, element),
  };
}
