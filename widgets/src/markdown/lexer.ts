import { Lexer, Tokenizer, getDefaults } from "marked";
import type { MarkedOptions, Token, Tokens } from "marked";

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

const math = (raw: string, text: string | undefined, display: boolean): MathToken => ({ type: "math", raw, text: (text ?? "").trim(), display });

const at = (index: number): number => (index < 0 ? Infinity : index);

class TextTokenizer extends Tokenizer {
  // Raw HTML is text.
  override html(): undefined {
    return undefined;
  }

  override tag(): undefined {
    return undefined;
  }
}

const options = {
  ...getDefaults(),
  gfm: true,
  extensions: {
    renderers: {},
    childTokens: {},
    block: [
      (src: string): Tokens.Generic | undefined => {
        const match = BLOCK.exec(src);
        return match ? math(match[0], match[1] ?? match[2], true) : undefined;
      },
    ],
    startBlock: [(src: string): number => at(src.search(/\n {0,3}(?:\$\$|\\\[)/)) + 1],
    inline: [
      (src: string): Tokens.Generic | undefined => {
        const display = DOUBLE.exec(src) ?? BRACKET.exec(src);
        const match = display ?? PAREN.exec(src) ?? DOLLAR.exec(src);
        return match ? math(match[0], match[1], display !== null) : undefined;
      },
    ],
    startInline: [(src: string): number => at(src.search(/\$|\\[([]/))],
  },
} as unknown as MarkedOptions;

/** The tokens of a markdown text. Nothing in them is markup: drawing decides what becomes an element. */
export const lex = (text: string): Token[] => new Lexer({ ...options, tokenizer: new TextTokenizer(options) as typeof options.tokenizer }).lex(text);
