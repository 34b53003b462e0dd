// Fences stand in lists and quotations too.
const FENCE = /^[ \t>]*(?:(?:[-+*]|\d+[.)])[ \t]+)*(`{3,}|~{3,})/;

/** Whether the text ends inside a fenced code block. */
export function isInFence(text: string): boolean {
  let open = "";
  for (const line of text.split("\n")) {
    const mark = FENCE.exec(line)?.[1];
    if (!mark) continue;
    if (open === "") open = mark;
    else if (mark[0] === open[0] && mark.length >= open.length && /^[ \t>]*[`~]+\s*$/.test(line)) open = "";
  }
  return open !== "";
}

const ROW = /^((?: {0,3}>)* {0,3})(\|.*)/;

/** A table whose second line has not come yet is drawn as a table already. */
function mendTable(text: string): string {
  const lines = text.split("\n");
  let at = lines.length - 1;
  // Its rule may have begun.
  if (/^[>|:\- ]*$/.test(lines[at] as string) && ROW.test(lines[at - 1] ?? "")) at -= 1;
  const [, mark = "", head] = ROW.exec(lines[at] as string) ?? [];
  if (head === undefined || ROW.test(lines[at - 1] ?? "")) return text;
  lines.length = at;
  if (head.trim() !== "|") {
    const cells = Math.max(1, head.replace(/\\\|/g, "").replace(/\|\s*$/, "").split("|").length - 1);
    lines.push(mark + (head.trimEnd().endsWith("|") ? head : head + " |"), mark + "| --- ".repeat(cells) + "|");
  }
  return lines.join("\n");
}

/** Math that is not closed yet is drawn as math; a dollar sign before a digit or a space stays a price. */
function mendMath(text: string): string {
  const block = text.slice(text.lastIndexOf("\n\n") + 1).replace(/`[^`]*(?:`|$)/g, (code) => " ".repeat(code.length));
  for (const [open, close] of [
    ["\\[", "\\]"],
    ["\\(", "\\)"],
  ] as const) {
    if (block.lastIndexOf(open) > block.lastIndexOf(close)) return block.trimEnd().endsWith(open) ? text.slice(0, text.lastIndexOf(open)) : text.trimEnd() + close;
  }
  const doubles = block.split("$$").length - 1;
  if (doubles % 2 === 1) {
    if (/\$\$\s*$/.test(block)) return text.slice(0, text.lastIndexOf("$$"));
    return text.replace(/\s*\$?$/, "$$$$");
  }
  const opened = block.replace(/\\\$|\$\$[^]*?\$\$/g, "  ").replace(/\$(?![\s$])(?:\\.|[^\\$])+?(?<!\s)\$(?!\d)/g, "");
  const tail = /\$(?![\s\d$])([^$]*)$/.exec(opened);
  if (tail) return tail[1] === "" ? text.slice(0, -1) : text.trimEnd() + "$";
  return opened.endsWith("$") ? text.slice(0, -1) : text;
}

const WORD = /[\p{L}\p{N}_]/u;
const START = /^[ \t]*(?:\n|[-+*>|] ?|#{1,6} |\d+[.)] )/;
const ADDRESS = /^\((?:[^()\\]|\\.|\((?:[^()\\]|\\.)*\))*\)/;
const FORMULA = /^(?:\$\$[^]+?\$\$|\$(?![\s$])(?:\\.|[^\\$])+?\$|\\\([^]+?\\\)|\\\[[^]+?\\\])/;

interface Open {
  sign: string;
  count: number;
  at: number;
}

/** Closes emphasis, code and links that are open at the end; an image whose address has not come yet is left out. */
function closeInline(text: string): string {
  let open: Open[] = [];
  let code = "";
  let isRow = text.startsWith("|");
  const push = (entry: Open): unknown => open.length < 32 && open.push(entry);
  const last = (sign: string): number => open.map((entry) => entry.sign).lastIndexOf(sign);
  for (let at = 0; at < text.length; ) {
    const sign = text[at] as string;
    let count = 1;
    while (text[at + count] === sign && sign !== "[") count += 1;
    const before = text[at - 1] ?? " ";
    const after = text[at + count] ?? " ";
    const formula = sign === "$" || sign === "\\" ? FORMULA.exec(text.slice(at))?.[0] : undefined;
    if (formula) count = formula.length;
    else if (sign === "\\") count = 2;
    else if (sign === "\n") {
      const rest = text.slice(at + count, at + count + 40);
      if (count > 1 || START.test(rest)) open = [];
      isRow = rest[0] === "|";
    } else if (sign === "|" && isRow) open = [];
    else if (sign === "`") {
      const ticks = sign.repeat(count);
      let end = text.indexOf(ticks, at + count);
      while (end >= 0 && text[end + count] === "`") end = text.indexOf(ticks, end + count + 1);
      // What is not closed in its own lines is no code.
      const isLone = end < 0 && text.slice(at).trimEnd().split("\n").some((line, index) => index > 0 && START.test(line + "\n"));
      if (end < 0 && !isLone) {
        // What begins with nothing, or ends with a tick of its own.
        if (text.slice(at + count).trim() === "") text = text.slice(0, at);
        else code = text.trimEnd().endsWith("`") ? " " + ticks : ticks;
        break;
      }
      if (!isLone) count = end + count - at;
    } else if (sign === "*" || sign === "_" || sign === "~") {
      const isWord = WORD.test(before) && (sign === "_" || count === 1);
      let left = count;
      for (let found = last(sign); left > 0 && found >= 0 && /\S/.test(before) && !(sign === "_" && WORD.test(after)); found = last(sign)) {
        const entry = open[found] as Open;
        const used = Math.min(left, entry.count);
        left -= used;
        entry.count -= used;
        open.length = entry.count > 0 ? found + 1 : found;
      }
      if (left > 0 && /\S/.test(after) && !isWord) push({ sign, count: left, at });
    } else if (sign === "[") {
      if (text[at + 1] !== "^") push({ sign, count, at: before === "!" ? at - 1 : at });
    } else if (sign === "]" && last("[") >= 0) {
      const found = last("[");
      const end = ADDRESS.exec(text.slice(at + 1))?.[0].length ?? 0;
      // Its address comes, or may come, behind it: until then it is drawn without one.
      if ((text[at + 1] === "(" && !end) || (text[at + 1] === undefined && !/\[[ x]?$/i.test(text.slice(0, at)))) {
        text = text.slice(0, at);
        break;
      }
      open.length = found;
      count = end + 1;
    }
    at += count;
  }
  let ends = code;
  for (const { sign, count, at } of open.reverse()) {
    if (sign !== "[") ends += sign.repeat(count);
    else if (text[at] !== "!") ends += "](x:)";
    else {
      text = text.slice(0, at);
      ends = "";
    }
  }
  return ends === "" ? text : text.trimEnd() + ends;
}

// The beginning of a line that its first word makes a list, a heading or a quotation; a box to tick.
const MARKER = /(\n|^)[ \t>]*(?:[-+*#>=]+|\d{1,9}[.)]?)[ \t]*(?:\[[ x]?\]?[ \t]*)?$/i;
// An entity, an address, a tag or a break of a line that is not whole.
const BEGUN = /(?:&#?\w{0,31}|<[a-z/!][^\s<>]*|<|\\\n)$/i;
const FAR = 4000;
const SIGNS = "*_~`[!$\\";

/** Whether the sign at an index stands behind a backslash, which makes it a letter. */
function isEscaped(text: string, at: number): boolean {
  let count = 0;
  while (text[at - 1 - count] === "\\") count += 1;
  return count % 2 === 1;
}

/** A run of signs at the very end may open or close; it is shown once it is known which. */
function trim(text: string): string {
  let end = text.length;
  while (end > 0 && SIGNS.includes(text[end - 1] as string) && !isEscaped(text, end - 1)) end -= 1;
  return text.slice(0, end);
}

/** Closes what a text that still grows has open, so that no raw sign flashes. */
export function mend(text: string): string {
  if (isInFence(text)) {
    const code = text.replace(/\n[ \t>]*[`~]+$/, "\n");
    // Behind a text the first line of code is one only when it is whole.
    return FENCE.test(code.slice(code.lastIndexOf("\n") + 1)) ? code + "\n" : code;
  }
  if (/\n[ \t>]*(?:`{3,}|~{3,})\s*$/.test(text)) return text;
  // What is open at the end has begun not far before it.
  const from = text.lastIndexOf("\n", text.length - FAR) + 1;
  const cut = trim(text.slice(from).replace(BEGUN, "")).replace(MARKER, "$1");
  const math = mendMath(cut);
  return text.slice(0, from) + mendTable(closeInline(cut.startsWith(math) ? trim(math) : math));
}
