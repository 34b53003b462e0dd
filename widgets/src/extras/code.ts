import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import julia from "highlight.js/lib/languages/julia";
import latex from "highlight.js/lib/languages/latex";
import markdown from "highlight.js/lib/languages/markdown";
import python from "highlight.js/lib/languages/python";
import r from "highlight.js/lib/languages/r";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

const languages = { bash, c, cpp, css, diff, go, java, javascript, json, julia, latex, markdown, python, r, rust, sql, typescript, xml, yaml };
for (const [name, language] of Object.entries(languages)) hljs.registerLanguage(name, language);

// The colours come with the code that needs them.
const style = document.createElement("style");
style.textContent = [
  ["keyword literal built_in type", "var(--jp-mirror-editor-keyword-color, var(--chatnb-link))"],
  ["string regexp addition", "var(--jp-mirror-editor-string-color, var(--chatnb-good))"],
  ["number symbol", "var(--jp-mirror-editor-number-color, var(--chatnb-warn))"],
  ["title section attr name", "var(--jp-mirror-editor-def-color, var(--chatnb-link))"],
  ["comment quote meta", "var(--chatnb-muted)"],
  ["deletion", "var(--chatnb-bad)"],
]
  .map(([names = "", color = ""]) => `${names.split(" ").map((name) => `.chatnb-view .cn-hl-${name}`).join(",")}{color:${color}}`)
  .join("");
document.head.append(style);

interface Scope {
  scope?: string;
  children: (string | Scope)[];
}

// highlight.js gives a tree beside its markup; drawn from the tree, no markup is parsed at all.
function draw(scope: Scope, into: Node): void {
  for (const child of scope.children) {
    if (typeof child === "string") into.appendChild(document.createTextNode(child));
    else {
      const span = document.createElement("span");
      if (child.scope) span.className = "cn-hl-" + (child.scope.split(".")[0] ?? "").replace(/[^\w-]/g, "");
      draw(child, span);
      into.appendChild(span);
    }
  }
}

/** The text as coloured spans, or null for a language that is not known here. */
export function highlight(text: string, lang: string): Node | null {
  const language = lang.toLowerCase().replace(/^(?:ipython3?|python3|py3)$/, "python");
  if (!hljs.getLanguage(language)) return null;
  const result = hljs.highlight(text, { language, ignoreIllegals: true });
  const fragment = document.createDocumentFragment();
  draw((result._emitter as unknown as { rootNode: Scope }).rootNode, fragment);
  return fragment;
}
