import type { JsonObject } from "./parts";
import type { Options, Snapshot } from "./protocol";

/** What carries frames and commands. A comm today; an HTTP page can use the same panel tomorrow. */
export interface Transport {
  /** Sends one command. Throws when the kernel can no longer be reached. */
  send(content: JsonObject, buffers?: ArrayBuffer[]): void;
  /** Hands over each frame. Returns the function that ends it. */
  onMessage(fn: (content: unknown, buffers: DataView[]) => void): () => void;
  /** Calls back once the host says that the kernel is gone. */
  onGone(fn: () => void): () => void;
  /** Options that are known before the kernel has answered, and their later changes. */
  options(): Partial<Options>;
  onOptions(fn: (options: Partial<Options>) => void): () => void;
  /** The conversation as saved with the document, if any; and how the page renews it. */
  saved(): Snapshot | null;
  save(snapshot: Snapshot): void;
  /** Host abilities. */
  insertCell?: ((source: string, kind: string, position: string) => Promise<boolean>) | undefined;
}
