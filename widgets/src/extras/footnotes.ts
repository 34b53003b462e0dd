import type { h as Create, VNode } from "preact";
import type { Token } from "marked";

type Create = typeof Create;
/** Draws a token that only an extra knows; `blocks` draws the tokens inside it. */
export type Draw = (h: Create, blocks: (tokens: Token[]) => (VNode | null)[], t: (key: "footnotes" | "backToText") => string) => VNode;
type Node = { type: string; raw: string; text?: string; tokens?: Node[]; items?: Node[]; header?: Node[]; rows?: Node[][]; draw?: Draw };

interface Footnote {
  number: number;
  id: string;
  tokens: Token[];
}

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const START = /^ {0,3}\[\^([^\]\s]+)\]:[ \t]*(.*)$/;
const REFERENCE = /\[\^([^\]\s]+)\]/g;

let count = 0;

/** Takes the definitions out of a text. A definition goes on in the lines below it, and in indented ones after a blank. */
function split(text: string): { rest: string; definitions: Map<string, string> } {
  const rest: string[] = [];
  const definitions = new Map<string, string>();
  let open: string | null = null;
  let fence = "";
  let isBlank = false;
  for (const line of text.split("\n")) {
    const mark = FENCE.exec(line)?.[1];
    if (open === null && mark) fence = fence === "" ? mark : mark[0] === fence[0] && mark.length >= fence.length ? "" : fence;
    const start = fence === "" ? START.exec(line) : null;
    if (start) {
      open = start[1] as string;
      if (!definitions.has(open)) definitions.set(open, start[2] ?? "");
      isBlank = false;
    } else if (open !== null && line.trim() === "") isBlank = true;
    else if (open !== null && (!isBlank || /^(?: {2,}|\t)/.test(line))) {
      definitions.set(open, `${definitions.get(open) ?? ""}${isBlank ? "\n\n" : "\n"}${line.replace(/^(?: {2,4}|\t)/, "")}`);
      isBlank = false;
    } else {
      if (open !== null) rest.push("");
      open = null;
      isBlank = false;
      rest.push(line);
    }
  }
  return { rest: rest.join("\n"), definitions };
}

/** Leads to a place of the same panel; an address of the page would be the host's business. */
const lead = (id: string) => (event: Event): void => {
  event.preventDefault();
  const target = document.getElementById(id);
  target?.scrollIntoView({ block: "nearest" });
  target?.focus({ preventScroll: true });
};

const reference = (note: Footnote, place: string): Draw => (h) =>
  h("sup", null, h("a", { id: place, href: "#" + note.id, role: "doc-noteref", onClick: lead(note.id) }, String(note.number)));

const section = (notes: { note: Footnote; place: string }[]): Draw => (h, blocks, t) =>
  h(
    "section",
    { class: "cn-sources", role: "doc-endnotes", "aria-label": t("footnotes") },
    h(
      "ol",
      null,
      notes.map(({ note, place }) =>
        h("li", { id: note.id, tabIndex: -1, dir: "auto" }, [
          ...blocks(note.tokens),
          h("a", { href: "#" + place, role: "doc-backlink", "aria-label": t("backToText"), onClick: lead(place) }, "↩"),
        ]),
      ),
    ),
  );

/** The blocks of a text with its footnotes: references become numbers, definitions a list at the end. */
export function lex(text: string, tokenize: (text: string) => Token[]): { token: Token; raw: string }[] {
  const { rest, definitions } = split(text);
  const group = `chatnb-note-${(count += 1)}`;
  const notes = new Map<string, { note: Footnote; place: string }>();
  const walk = (tokens: Node[]): Node[] => tokens.flatMap(one);
  const one = (token: Node): Node[] => {
    if (token.tokens) token.tokens = walk(token.tokens);
    if (token.items) token.items = walk(token.items);
    for (const cell of [...(token.header ?? []), ...(token.rows?.flat() ?? [])]) if (cell.tokens) cell.tokens = walk(cell.tokens);
    if (token.type !== "text" || token.tokens) return [token];
    return token.raw.split(REFERENCE).map((piece, at): Node => {
      if (at % 2 === 0) return { type: "text", raw: piece, text: piece };
      const definition = definitions.get(piece);
      if (definition === undefined) return { type: "text", raw: `[^${piece}]`, text: `[^${piece}]` };
      let known = notes.get(piece);
      if (!known) {
        const number = notes.size + 1;
        known = { note: { number, id: `${group}-${number}`, tokens: tokenize(definition) }, place: `${group}-${number}-place` };
        notes.set(piece, known);
      }
      return { type: "note", raw: piece, draw: reference(known.note, known.place) };
    });
  };
  const drawn = walk(tokenize(rest) as Node[]).filter((token) => token.type !== "space");
  if (notes.size > 0) drawn.push({ type: "notes", raw: group, draw: section([...notes.values()]) });
  return drawn.map((token) => ({ token: token as Token, raw: token.raw + group }));
}
