import type { AnyModel } from "./anywidget";

/** Where the panel of the served page sends its commands, and where its frames come from. */
export const FRAMES = "/actions/-/panel/frames";
export const COMMANDS = "/actions/-/panel/commands";
const CAPABILITY = "/ui-capability";
/** The proof is valid for 10 minutes; it is renewed a little earlier. */
const FRESH = 9 * 60 * 1000;
/** Commands that decide or run something: a person's click has to be proven. */
const PROVEN = new Set(["approve", "reject", "call"]);

interface Parcel {
  content: unknown;
  buffers: string[];
}

type Listener = (...args: never[]) => void;

/** A model as anywidget has one, over HTTP: the panel cannot tell the difference. */
export function httpModel(chat: string, session: string): AnyModel & { close(): void } {
  const listeners = new Map<string, Set<Listener>>();
  const query = `?chat=${encodeURIComponent(chat)}&session=${encodeURIComponent(session)}`;
  const source = new EventSource(FRAMES + query);
  let minted = 0;
  // There is a session once its stream is open; no command comes before that.
  let line: Promise<void> = new Promise((opened) => source.addEventListener("open", () => opened(), { once: true }));

  const emit = (event: string, ...args: unknown[]): void => {
    for (const fn of [...(listeners.get(event) ?? [])]) (fn as (...given: unknown[]) => void)(...args);
  };
  source.addEventListener("frame", (event) => {
    const { content, buffers } = JSON.parse((event as MessageEvent<string>).data) as Parcel;
    emit("msg:custom", content, buffers.map((text) => new DataView(fromBase64(text))));
  });
  source.onerror = () => {
    // A stream that breaks is opened again by the browser; one that is refused is closed for good.
    if (source.readyState === EventSource.CLOSED) emit("comm_live_update");
  };

  const mint = async (again: boolean): Promise<void> => {
    if (!again && Date.now() - minted < FRESH) return;
    const response = await fetch(CAPABILITY);
    if (response.ok) minted = Date.now();
  };
  const post = async (content: unknown, buffers: ArrayBuffer[]): Promise<Response> =>
    fetch(COMMANDS + query, {
      method: "POST",
      headers: { "content-type": "application/json", "x-chatnb-ui": "1" },
      body: JSON.stringify({ content, buffers: buffers.map(toBase64) } satisfies Parcel),
    });
  const deliver = async (content: unknown, buffers: ArrayBuffer[]): Promise<void> => {
    const proven = PROVEN.has(String((content as { type?: unknown }).type));
    if (proven) await mint(false);
    let response = await post(content, buffers);
    if (proven && response.status === 403) {
      await mint(true);
      response = await post(content, buffers);
    }
    if (response.status === 404 || response.status === 401) emit("comm_live_update");
  };

  return {
    get: () => undefined,
    set: () => undefined,
    send(content, _callbacks, buffers = []) {
      // One after the other, in the order they were given; what fails is sent again by the panel itself.
      line = line.then(() => deliver(content, buffers)).catch(() => undefined);
    },
    on(event, fn) {
      if (!listeners.has(event)) listeners.set(event, new Set());
      listeners.get(event)?.add(fn);
    },
    off(event, fn) {
      listeners.get(event)?.delete(fn);
    },
    close: () => source.close(),
  };
}

export function toBase64(buffer: ArrayBuffer): string {
  const bytes = new Uint8Array(buffer);
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

export function fromBase64(text: string): ArrayBuffer {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let at = 0; at < raw.length; at += 1) bytes[at] = raw.charCodeAt(at);
  return bytes.buffer;
}
