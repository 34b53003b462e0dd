import { Lexer, Tokenizer } from "marked";
import type { MarkedOptions, Token, Tokens, TokensList } from "marked";

/** A piece of TeX, as `tokens` of marked name it. */
export interface MathToken extends Tokens.Generic {
  type: "math";
  text: string;
  display: boolean;
}

// A single dollar sign opens before a non-space and closes after one, not before a digit, in one paragraph.
const DOLLAR = /^\$(?![\s$])((?:\\[\s\S]|[^\\$`\n]|\n(?!\s*\n))+?)(?<!\s)\$(?!\d)/;
const DOUBLE = /^\$\$((?:[^`$]|\$(?!\$))+?)\$\$/;
const PAREN = /^\\\(([^`]+?)\\\)/;
const BRACKET = /^\\\[([^`]+?)\\\]/;
const BLOCK = /^ {0,3}(?:\$\$((?:[^`$]|\$(?!\$))+?)\$\$|\\\[([^`]+?)\\\])[ \t]*(?:\n+|$)/;

const math = (raw: string, text: string | undefined, display: boolean): MathToken => ({ type: "math", raw, text: (text ?? "").trim(), display });

// What a text is in which no rule begins. Unlike that of marked it stops at a dollar sign, and looks no further ahead for
// the sign of an address than an address can be long.
const TEXT =
  /^([`~]+|[^`~])(?:(?= {2,}\n)|(?=[\w.!#$%&'*+/=?`{|}~-]{1,64}@)|[\s\S]*?(?:(?=[\\<!\[`*~_$]|https?:\/\/|ftp:\/\/|www\.|$)|[^ ](?= {2,}\n)|[^\w.!#$%&'*+/=?`{|}~-](?=[\w.!#$%&'*+/=?`{|}~-]{1,64}@)))/;
const ENDS = /\n {0,3}(?:(?:([*_-])[ \t]*)(?:\1[ \t]*){2,}(?:\n|$)|\$\$|\\\[)/;
const ADDRESS = /^(?:[\w.+-]{1,64}@|(?:ftp|https?):\/\/|www\.)/i;
// Escapes, code, tags and links: no sign in them opens or closes emphasis outside.
const MASKED = /\\[\p{P}\p{S}]|`[^`]*`|<(?:[^<>\\]|\\.)*>|\[([^[\]]*)\](\((?:\\.|[^\\()]|\((?:\\.|[^\\()])*\)){0,2000}\))?/gu;

/** What tries in vain may read in one run of text, and how deep things may be nested: beyond it signs are text. */
const BUDGET = 400_000;
const DEPTH = 40;

class TextTokenizer extends Tokenizer {
  left = BUDGET;
  private masks = new Map<string, string>();

  /** Tries a rule that may read far ahead; marked would do so at each sign, which is quadratic. */
  try<T>(reads: number, rule: () => T | undefined): T | undefined {
    if (this.left < 0) return undefined;
    const token = rule();
    if (!token) this.left -= reads;
    return token;
  }

  override emStrong(src: string, masked: string, before = ""): Tokens.Em | Tokens.Strong | undefined {
    const sign = src[0] as string;
    if (!/^(?:\*+|_+)\S/.test(src) || (sign === "_" && /[\p{L}\p{N}]/u.test(before))) return undefined;
    let mask = this.masks.get(masked);
    if (mask === undefined) {
      const { links } = this.lexer.tokens;
      const hide = (found: string, label?: string, address?: string): string =>
        label !== undefined && !address && !(label.toLowerCase() in links) ? `[${label.replace(MASKED, hide)}]` : "[" + "a".repeat(found.length - 2) + "]";
      mask = masked.replace(MASKED, hide);
      this.masks.set(masked, mask);
    }
    const rest = mask.slice(-src.length);
    return rest.indexOf(sign, 1) < 0 ? undefined : this.try(src.length, () => super.emStrong(src, mask, before));
  }

  override link(src: string): Tokens.Link | Tokens.Image | undefined {
    const found = this.left < 0 ? null : /^!?\[[^\]]*(\]\([^\s)]*)?/.exec(src);
    if (!found) return undefined;
    // Each of these brackets may begin a title that reads to the end.
    return this.try(found[1] ? src.length : found[0].length, () => (found[0].split("(").length > 32 ? undefined : super.link(src)));
  }

  override reflink(src: string, links: Record<string, Tokens.Link>): Tokens.Link | Tokens.Image | Tokens.Text | undefined {
    const found = this.left < 0 ? null : /^!?\[[^\]]*/.exec(src);
    return found ? this.try(found[0].length, () => super.reflink(src, links)) : undefined;
  }

  override codespan(src: string): Tokens.Codespan | undefined {
    const ticks = /^`+/.exec(src)?.[0];
    return ticks && src.includes(ticks, ticks.length) ? this.try(src.length, () => super.codespan(src)) : undefined;
  }

  override del(src: string): Tokens.Del | undefined {
    return src[0] === "~" && src.includes("~", 2) ? this.try(src.length, () => super.del(src)) : undefined;
  }

  override url(src: string): Tokens.Link | undefined {
    return ADDRESS.test(src) ? super.url(src) : undefined;
  }

  override lheading(src: string): Tokens.Heading | undefined {
    const token = super.lheading(src);
    if (!token) return undefined;
    // What ends a paragraph is in no heading; what has begun to be read is forgotten.
    if (!ENDS.test(token.text)) return token;
    this.lexer["inlineQueue"].pop();
    return undefined;
  }

  override paragraph(src: string): Tokens.Paragraph | undefined {
    const token = super.paragraph(src);
    // A formula of its own lines ends a paragraph.
    for (const { index } of token?.raw.matchAll(/\n(?= {0,3}(?:\$\$|\\\[))/g) ?? []) {
      if (this.try(src.length - index, () => BLOCK.test(src.slice(index + 1)))) {
        this.lexer["inlineQueue"].pop();
        return super.paragraph(src.slice(0, index + 1));
      }
    }
    return token;
  }
}

const options = {
  extensions: {
    renderers: {},
    childTokens: {},
    block: [
      (src: string): Tokens.Generic | undefined => {
        const match = BLOCK.exec(src);
        return match ? math(match[0], match[1] ?? match[2], true) : undefined;
      },
    ],
    inline: [
      function (this: { lexer: TextLexer }, src: string): Tokens.Generic | undefined {
        const isDollar = src[0] === "$";
        if (!isDollar && !/^\\[([]/.test(src)) return undefined;
        return this.lexer.rules.try(isDollar ? 0 : src.length, () => {
          const display = DOUBLE.exec(src) ?? BRACKET.exec(src);
          const match = display ?? PAREN.exec(src) ?? DOLLAR.exec(src);
          return match ? math(match[0], match[1], display !== null) : undefined;
        });
      },
    ],
  },
} as unknown as MarkedOptions;

class TextLexer extends Lexer {
  readonly rules: TextTokenizer;
  private depth = 0;

  constructor() {
    const rules = new TextTokenizer(options);
    super({ ...options, tokenizer: rules as unknown as NonNullable<typeof options.tokenizer> });
    this.rules = rules;
    rules.rules = { ...rules.rules, inline: { ...rules.rules.inline, text: TEXT } };
  }

  override inlineTokens(src: string, tokens: Token[] = []): Token[] {
    return this.nest(src, tokens, () => super.inlineTokens(src, tokens));
  }

  override blockTokens(src: string, tokens: Token[] = [], isClipped?: boolean): TokensList {
    return this.nest(src, tokens, () => super.blockTokens(src, tokens, isClipped)) as TokensList;
  }

  private nest(src: string, tokens: Token[], read: () => Token[]): Token[] {
    if (this.depth === 0) this.rules.left = BUDGET;
    if (this.depth > DEPTH) {
      tokens.push({ type: "text", raw: src, text: src });
      return tokens;
    }
    this.depth += 1;
    read();
    this.depth -= 1;
    return tokens;
  }
}

/** The tokens of a markdown text. Raw HTML is text, nothing in them is markup: drawing decides what becomes an element. */
export const lex = (text: string): Token[] => new TextLexer().lex(text);
