// Prints the gzip size of the core bundle and fails above the budget of spec/widget.md, section 8.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";

const BUDGET = 45_000;
const here = dirname(fileURLToPath(import.meta.url));
const folder = process.env.CHATNB_STATIC ?? join(here, "..", "chatnb", "widget", "static");
const size = (name) => gzipSync(readFileSync(join(folder, name)), { level: 9 }).length;

const js = size("widget.js");
const css = size("widget.css");
console.log(`widget.js ${js} B, widget.css ${css} B, core ${js + css} B of ${BUDGET} B`);
for (const name of ["extra-code.js", "extra-footnotes.js", "extra-form.js", "extra-lang-ar.js", "extra-markup.js", "extra-math.js", "extra-mentions.js", "extra-tools.js"]) {
  console.log(`${name} ${size(name)} B`);
}
if (js + css > BUDGET) process.exit(1);
