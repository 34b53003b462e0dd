import remend from "remend";

const FENCE = /^ {0,3}(`{3,}|~{3,})/;

/** Whether the text ends inside a fenced code block. */
export function isInFence(text: string): boolean {
  let open = "";
  for (const line of text.split("\n")) {
    const mark = FENCE.exec(line)?.[1];
    if (!mark) continue;
    if (open === "") open = mark;
    else if (mark[0] === open[0] && mark.length >= open.length && line.trim() === mark) open = "";
  }
  return open !== "";
}

/** A table whose second line has not come yet is drawn as a table already. */
function mendTable(text: string): string {
  const start = text.lastIndexOf("\n\n") + 1;
  const lines = text.slice(start).replace(/^\n/, "").split("\n");
  const head = lines[0] ?? "";
  if (!head.startsWith("|") || lines.length > 2) return text;
  const rule = lines[1] ?? "";
  if (rule !== "" && !/^[|:\- ]+$/.test(rule)) return text;
  if (/^\|\s*$/.test(head)) return text.slice(0, text.length - lines.join("\n").length);
  const cells = Math.max(1, head.replace(/\\\|/g, "").replace(/\|\s*$/, "").split("|").length - 1);
  const whole = head.trimEnd().endsWith("|") && head.length > 1 ? head : head + " |";
  const before = text.slice(0, text.length - lines.join("\n").length);
  return before + whole + "\n" + "| --- ".repeat(cells) + "|";
}

/** Math that is not closed yet is drawn as math; a dollar sign before a digit or a space stays a price. */
function mendMath(text: string): string {
  const block = text.slice(text.lastIndexOf("\n\n") + 1).replace(/`[^`]*`/g, (code) => " ".repeat(code.length));
  for (const [open, close] of [
    ["\\[", "\\]"],
    ["\\(", "\\)"],
  ] as const) {
    if (block.lastIndexOf(open) > block.lastIndexOf(close)) return block.endsWith(open) ? text.slice(0, -2) : text.trimEnd() + close;
  }
  const doubles = block.split("$$").length - 1;
  if (doubles % 2 === 1) {
    if (/\$\$\s*$/.test(block)) return text.slice(0, text.lastIndexOf("$$"));
    return text.replace(/\s*\$?$/, "$$$$");
  }
  if (doubles > 0) return text;
  const opened = block.replace(/\\\$/g, "  ").replace(/\$(?![\s$])(?:\\.|[^\\$])+?(?<!\s)\$(?!\d)/g, "");
  const tail = /\$(?![\s\d$])([^$]*)$/.exec(opened);
  if (tail) return tail[1] === "" ? text : text.trimEnd() + "$";
  return opened.endsWith("$") ? text.slice(0, -1) : text;
}

/** A lone asterisk between spaces is a sign of its own, outside code. */
const escapeLone = (text: string): string =>
  text.replace(/(`+)[^`]*\1|(?<=\S[ \t])\*(?=[ \t]|$)/g, (found, code: string | undefined) => (code ? found : "\\*"));

/** Closes what a text that still grows has open, so that no raw sign flashes. */
export function mend(text: string): string {
  if (isInFence(text)) return text.replace(/\n {0,3}[`~]{1,}$/, "\n");
  // A run of signs at the very end may open or close; it is shown once it is known which.
  let tail = text.replace(/(?:[*_~`]+|!?\[)$/, "").replace(/(\n|^) {0,3}(?:[-+#>=]|\d+[.)]?)$/, "$1");
  if ((tail.split("`").length - 1) % 2 === 1) tail += "`";
  return remend(escapeLone(mendTable(mendMath(tail))), { katex: false });
}
