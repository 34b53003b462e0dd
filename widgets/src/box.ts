import type { Draft } from "./draft";
import type { Store } from "./store";

/** What is being written: text and files, page-only. */
export class Box {
  text = "";
  files: File[] = [];
  area: HTMLTextAreaElement | null = null;
  hadStop = false;
  /** Lets an open completion take a key first. */
  mentionKey: ((event: KeyboardEvent) => boolean) | null = null;

  constructor(
    private readonly store: Store,
    private readonly draft: Draft,
  ) {}

  set(text: string): void {
    this.text = text;
    this.draft.set(text);
    this.store.mark("box");
  }

  setFiles(files: File[]): void {
    this.files = files;
    this.store.mark("box");
  }

  clear(): void {
    this.files = [];
    this.set("");
  }

  /** Puts a text back, if nothing else is being written. */
  giveBack(text: string, files: File[] = []): boolean {
    if (this.text.trim() !== "" || this.files.length > 0) return false;
    this.files = files;
    this.set(text);
    return true;
  }
}
