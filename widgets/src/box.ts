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
  /** What waits for the end of an input method's work: until then nobody but the person changes the text. */
  afterwards: (() => void)[] | null = null;

  constructor(
    private readonly store: Store,
    private readonly draft: Draft,
  ) {}

  set(text: string): void {
    this.text = text;
    this.draft.set(text);
    // At once: the next letter may come before the next drawing, and must find this text.
    if (this.area && this.area.value !== text) this.area.value = text;
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

  /** The input method has ended. */
  release(): void {
    const { afterwards } = this;
    this.afterwards = null;
    afterwards?.forEach((fn) => fn());
  }

  /** Puts a text back, if nothing else is being written. */
  giveBack(text: string, files: File[] = []): boolean {
    if (this.text.trim() !== "" || this.files.length > 0) return false;
    this.putBack(text, files);
    return true;
  }

  /** Puts a text back before what is being written; there the caret stays where it is. */
  putBack(text: string, files: File[] = []): void {
    if (this.afterwards) {
      this.afterwards.push(() => this.putBack(text, files));
      return;
    }
    const { area, text: rest } = this;
    const head = text && rest.trim() ? text + "\n" : text;
    const at = area ? [area.selectionStart, area.selectionEnd].map((caret) => head.length + caret) : [];
    this.files = [...files, ...this.files];
    this.set(head + rest);
    if (rest) area?.setSelectionRange(at[0], at[1]);
  }
}
