import type { AssetFrame } from "./protocol";

/** Content comes right after what refers to it; only if it stays out is it asked for. */
const PATIENCE = 400;
const AGAIN = 4000;

interface Loading {
  pieces: (Uint8Array | undefined)[];
  mediaType: string;
}

interface Shared {
  /** Finished contents by hash. They are named by their content, so every view of the page may share them. */
  blobs: Map<string, Blob>;
  urls: Map<string, string>;
}

const shared: Shared = ((globalThis as Record<symbol, unknown>)[Symbol.for("chatnb.assets")] ??= {
  blobs: new Map(),
  urls: new Map(),
}) as Shared;

/** Collects asset frames into blobs and tells who waits for them. */
export class Assets {
  private loading = new Map<string, Loading>();
  private waiting = new Map<string, Set<() => void>>();
  private heardAt = 0;

  /** Asks the kernel for a missing one; set by whoever owns the connection. */
  request: (hash: string) => void = () => undefined;

  add(frame: AssetFrame, buffer: DataView): void {
    this.heardAt = Date.now();
    if (shared.blobs.has(frame.hash)) return;
    let entry = this.loading.get(frame.hash);
    if (!entry || entry.pieces.length !== frame.count) {
      entry = { pieces: new Array<undefined>(frame.count).fill(undefined), mediaType: frame.mediaType };
      this.loading.set(frame.hash, entry);
    }
    entry.pieces[frame.index] = new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength).slice();
    if (entry.pieces.some((piece) => piece === undefined)) return;
    this.loading.delete(frame.hash);
    shared.blobs.set(frame.hash, new Blob(entry.pieces as Uint8Array<ArrayBuffer>[], { type: entry.mediaType }));
    for (const fn of [...(this.waiting.get(frame.hash) ?? [])]) fn();
    this.waiting.delete(frame.hash);
  }

  get have(): string[] {
    return [...shared.blobs.keys()];
  }

  blob(hash: string): Blob | undefined {
    return shared.blobs.get(hash);
  }

  url(hash: string): string | undefined {
    const blob = shared.blobs.get(hash);
    if (!blob) return undefined;
    let url = shared.urls.get(hash);
    if (url === undefined) shared.urls.set(hash, (url = URL.createObjectURL(blob)));
    return url;
  }

  /** Calls back when the asset is there, at once if it is. If it does not come it is asked for, by `ask` if that is given. */
  whenLoaded(hash: string, fn: () => void, ask: () => void = () => this.request(hash)): () => void {
    if (shared.blobs.has(hash)) {
      fn();
      return () => undefined;
    }
    let set = this.waiting.get(hash);
    if (!set) {
      this.waiting.set(hash, (set = new Set()));
      let before = -1;
      const look = (): void => {
        if (!this.waiting.get(hash)?.size) return;
        // While others come this one stands in the line behind them.
        const left = this.heardAt + PATIENCE - Date.now();
        if (left > 0) return void setTimeout(look, left);
        const pieces = this.loading.get(hash)?.pieces.filter(Boolean).length ?? 0;
        if (pieces === Math.max(0, before)) ask();
        before = pieces;
        setTimeout(look, AGAIN);
      };
      setTimeout(look, PATIENCE);
    }
    set.add(fn);
    return () => set.delete(fn);
  }
}
