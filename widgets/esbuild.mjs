// Builds the panel for anywidget: one ESM file, one style sheet, and the extras, into chatnb/widget/static.
import { build } from "esbuild";
import { fileURLToPath } from "node:url";
import { dirname, join } from "node:path";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.env.CHATNB_STATIC ?? join(here, "..", "chatnb", "widget", "static");

const common = {
  absWorkingDir: here,
  bundle: true,
  charset: "utf8",
  format: "esm",
  jsxFactory: "h",
  jsxFragment: "Fragment",
  legalComments: "none",
  logLevel: "warning",
  minify: process.env.CHATNB_DEBUG === undefined,
  target: "es2022",
};

await build({
  ...common,
  entryPoints: { widget: "src/widget.ts" },
  outdir: out,
});
await build({
  ...common,
  entryPoints: { widget: "src/styles/index.css" },
  outdir: out,
});
// Each extra is a module of its own: it is fetched from the kernel once per page, on first use.
await build({
  ...common,
  entryPoints: {
    "extra-code": "src/extras/code.ts",
    "extra-markup": "src/extras/markup.ts",
    "extra-math": "src/extras/math.ts",
    "extra-form": "src/extras/form.ts",
  },
  outdir: out,
});
