import katex from "katex";
import { clean } from "./markup";

/** MathML of a formula. Throws with the reason when the TeX is wrong. */
export function render(tex: string, display: boolean): Node {
  const markup = katex.renderToString(tex, {
    displayMode: display,
    output: "mathml",
    throwOnError: true,
    strict: "ignore",
    trust: false,
    maxExpand: 500,
    maxSize: 20,
  });
  return clean(markup);
}
