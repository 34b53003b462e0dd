import type { Token } from "marked";
import { lex } from "./lexer";
import { mend } from "./mend";

export interface Block {
  token: Token;
  /** Equal raws draw equally, so a block whose raw is unchanged keeps its nodes. */
  raw: string;
}

const REFERENCE = /^ {0,3}\[[^\]]+\]:/m;

/**
 * The blocks of one text, drawn while it grows. All blocks but the last are settled and are never lexed
 * again; at the end the whole is lexed once, so that it equals what a finished text draws.
 */
export class TextStream {
  private text = "";
  private settled: Block[] = [];
  /** Where the first block begins that is not settled, and up to where has been looked for settled ones. */
  private offset = 0;
  private seen = 0;
  private whole: Block[] | null = null;

  blocks(text: string, isDone: boolean): Block[] {
    text = text.replace(/\r\n?/g, "\n");
    if (!text.startsWith(this.text)) {
      this.settled = [];
      this.offset = this.seen = 0;
    } else if (text === this.text && isDone && this.whole) return this.whole;
    this.whole = null;
    this.text = text;
    if (isDone) return (this.whole = this.finish(text));
    // What a line is, is known at its end: it may still go on with the list before it, or rule a table. In a long list or
    // table that is not asked at each line.
    const end = text.lastIndexOf("\n") + 1;
    if (end - this.seen > (end - this.offset) / 16) {
      this.seen = end;
      const tokens = lex(text.slice(this.offset, end));
      let last = tokens.length - 1;
      while (last > 0 && tokens[last]?.type === "space") last -= 1;
      for (const token of tokens.slice(0, Math.max(0, last))) {
        this.offset += token.raw.length;
        this.settled.push({ token, raw: token.raw });
      }
    }
    const open = lex(mend(text.slice(this.offset))).map((token) => ({ token, raw: token.raw }));
    return [...this.settled, ...open].filter(({ token }) => token.type !== "space");
  }

  private finish(text: string): Block[] {
    // Without reference definitions the settled blocks are final; only the tail is lexed.
    const hasReferences = REFERENCE.test(text);
    const settled = hasReferences ? [] : this.settled;
    const tail = settled.length > 0 ? text.slice(this.offset) : text;
    const mark = hasReferences ? "\0" : "";
    const blocks = [...settled, ...lex(tail).map((token) => ({ token, raw: token.raw + mark }))];
    return blocks.filter(({ token }) => token.type !== "space");
  }
}
