import { Marked } from "marked";
import type { Token, TokenizerAndRendererExtension, Tokens } from "marked";

/** A piece of TeX, as `tokens` of marked name it. */
export interface MathToken extends Tokens.Generic {
  type: "math";
  text: string;
  display: boolean;
}

// A single dollar sign opens before a non-space and closes after one, not before a digit, in one paragraph.
const DOLLAR = /^\$(?![\s$])((?:\\[\s\S]|[^\\$`\n]|\n(?!\s*\n))+?)(?<!\s)\$(?!\d)/;
const DOUBLE = /^\$\$([^`]+?)\$\$/;
const PAREN = /^\\\(([^`]+?)\\\)/;
const BRACKET = /^\\\[([^`]+?)\\\]/;
const BLOCK = /^ {0,3}(?:\$\$([^`]+?)\$\$|\\\[([^`]+?)\\\])[ \t]*(?:\n+|$)/;

const inlineMath: TokenizerAndRendererExtension = {
  name: "math",
  level: "inline",
  start: (src) => {
    const at = src.search(/\$|\\[([]/);
    return at < 0 ? undefined : at;
  },
  tokenizer: (src) => {
    const double = DOUBLE.exec(src) ?? BRACKET.exec(src);
    const match = double ?? PAREN.exec(src) ?? DOLLAR.exec(src);
    if (!match) return undefined;
    return { type: "math", raw: match[0], text: (match[1] ?? "").trim(), display: double !== null };
  },
};

const blockMath: TokenizerAndRendererExtension = {
  name: "mathBlock",
  level: "block",
  start: (src) => {
    const match = /\n {0,3}(?:\$\$|\\\[)/.exec(src);
    return match ? match.index + 1 : undefined;
  },
  tokenizer: (src) => {
    const match = BLOCK.exec(src);
    if (!match) return undefined;
    return { type: "math", raw: match[0], text: (match[1] ?? match[2] ?? "").trim(), display: true };
  },
};

const marked = new Marked({
  gfm: true,
  extensions: [inlineMath, blockMath],
  tokenizer: {
    // Raw HTML is text.
    html: () => undefined,
    tag: () => undefined,
  },
});

/** The tokens of a markdown text. Nothing in them is markup: drawing decides what becomes an element. */
export const lex = (text: string): Token[] => marked.lexer(text);
