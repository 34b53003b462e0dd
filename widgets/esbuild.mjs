// Builds the panel for anywidget: one ESM file, one style sheet, and the extras, into chatnb/widget/static.
import { build } from "esbuild";
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { minify } from "terser";
import { dirname, join } from "node:path";
import { lexerOnly } from "./marked_lexer.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.env.CHATNB_STATIC ?? join(here, "..", "chatnb", "widget", "static");

/**
 * In Preact a text that grows is added to: set anew, the selection of a person who reads along would be gone. What no
 * component here has or draws falls away.
 */
const PREACT = [
  [/\(([\w$]+)\.data=([\w$]+)\)(?=;return)/, '((""+$2).startsWith($1.data)?$1.appendData((""+$2).slice($1.data.length)):$1.data=$2)'],
  [/[\w$]+&&![\w$]+\.getDerivedStateFromProps&&([\w$]+)\.componentWillMount&&\1\.componentWillMount\(\),/, ""],
  [/[\w$]+!==[\w$]+&&[\w$]+&&![\w$]+\.getDerivedStateFromProps&&([\w$]+)\.componentWillReceiveProps&&\1\.componentWillReceiveProps\([\w$]+,[\w$]+\),/, ""],
  [/[\w$]+&&[\w$]+\.__c&&([\w$]+)\.getSnapshotBeforeUpdate&&\([\w$]+=\1\.getSnapshotBeforeUpdate\([\w$]+,[\w$]+\)\),/, ""],
  [/,([\w$]+)\.getDerivedStateFromProps&&\(([\w$]+)\.__s==\2\.state&&\(\2\.__s=[\w$]+\(\{\},\2\.__s\)\),[\w$]+\(\2\.__s,\1\.getDerivedStateFromProps\([\w$]+,\2\.__s\)\)\)/, ""],
  [/\(([\w$]+)=\(([\w$]+)=([\w$]+)\.constructor\)&&\2\.getDerivedStateFromError\)&&\3\.setState\(\2\.getDerivedStateFromError\([\w$]+\)\),/, "$1=0,"],
  [/\("foreignObject"==[\w$]+\|\|"[^"]*MathML"==[\w$]+&&[\w$]+\.test\([\w$]+\)\)&&\([\w$]+="[^"]*xhtml"\),/, ""],
  [/"dangerouslySetInnerHTML"==[\w$]+\?[\w$]+=[\w$]+:/g, ""],
  [/[\w$]+\?\([\w$]+\|\|[\w$]+&&\([\w$]+\.__html==[\w$]+\.__html\|\|[\w$]+\.__html==[\w$]+\.innerHTML\)\|\|\([\w$]+\.innerHTML=[\w$]+\.__html\),[\w$]+\.__k=\[\]\):\([\w$]+&&\([\w$]+\.textContent=""\),/, "("],
  [/[\w$]+=[\w$]+\.replace\(\/xlink\(H\|:h\)\/,"h"\)\.replace\(\/sName\$\/,"s"\);else/, ";else"],
];
function ownPreact(source) {
  for (const [old, now] of PREACT) {
    const next = source.replace(old, now);
    if (next === source) throw new Error(`Preact has changed: nothing matches ${old}`);
    source = next;
  }
  return source;
}

/**
 * Members that only the core knows get short names: of its classes, and of marked's rules. Never one that a frame, a
 * command, the host or an extra names; never one that is read by a string.
 */
const INTERNAL = `
  adopt afterwards answered applyEarly arrived early expect giveBack hadStop halt hasPopup heard hasSelection heardAt
  helloAt helloTimer inputError isBusy isDone isDrawn isEditing isExpanded isExpecting isFollowing isHidden isIcon
  isOff isOpen isPrimary isRunning isShown listeners onInsertCell onRefused onTurnEnd onWaiting outbox outgoing pieces
  putAll putBack receiveMark receiveOps receivePage receiveReset requestReset resyncTimer sayHello schedule setFiles
  setOrder setPending setPhase setWaiting settleHello silenceTimer takeBack toEnd touch transmit transmitHello
  unsubscribe wasLive wasRunning wasStreaming
  anyLine anyPunctuation backpedal beginningSpace blockSkip blockTokens blockquoteSetextReplace
  blockquoteSetextReplace2 blockquoteStart carriageReturn codeRemoveIndent delLDelim delRDelim doubleBlankLine
  emStrong emStrongLDelim emStrongRDelimAst emStrongRDelimUnd endATag endAngleBracket endPreScriptTag endingHash
  endingSpaceChar escapeReplace escapeReplaceNoEncode escapeTest escapeTestNoEncode fencesBeginRegex findPipe
  headingBeginRegex hrRegex hrefBrackets htmlBeginRegex inLink inRawBlock indentCodeCompensation inlineQueue
  inlineText inlineTokens lheading lineBreak listIsTask listItemRegex listReplaceNesting listReplaceTabs
  listReplaceTask listTaskCheckbox multipleSpaceGlobal newLineCharGlobal nextBulletRegex nonSpaceChar notSpaceStart
  outputLinkReplace pedanticHrefTitle percentDecode reflink reflinkSearch slashPipe spaceLine splitPipe startATag
  startAngleBracket startPreScriptTag startingSpaceChar tabCharGlobal tableAlignCenter tableAlignChars tableAlignLeft
  tableAlignRight tableDelimiter tableRowBlankLine unescapeTest unicodeAlphaNumeric
  rules tokenizer lexer getRegex extensions masks settled seen
`
  .trim()
  .split(/\s+/);

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
  minify: false,
  outdir: out,
  plugins: [
    {
      name: "own-libraries",
      setup({ onLoad }) {
        onLoad({ filter: /preact[\\/]dist[\\/]preact\.mjs$/ }, async ({ path }) => ({ contents: ownPreact(await readFile(path, "utf8")), loader: "js" }));
        onLoad({ filter: /marked[\\/]lib[\\/]marked\.esm\.js$/ }, async ({ path }) => ({ contents: lexerOnly(await readFile(path, "utf8")), loader: "js" }));
      },
    },
  ],
});
if (common.minify) {
  // Terser gives 4 % less than esbuild: the bundle is stored with every saved widget.
  const path = join(out, "widget.js");
  const { code } = await minify(await readFile(path, "utf8"), {
    module: true,
    toplevel: true,
    compress: { passes: 3, ecma: 2020, unsafe_arrows: true, pure_getters: true, keep_fargs: false },
    mangle: { properties: { regex: new RegExp(`^(?:${INTERNAL.join("|")})$`) } },
    // A page keeps a copy for every panel it ever showed; one sign beyond Latin-1 makes each twice as large.
    format: { ecma: 2020, ascii_only: true },
  });
  await writeFile(path, code);
}
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
    "extra-footnotes": "src/extras/footnotes.ts",
    "extra-form": "src/extras/form.ts",
    "extra-lang-ar": "src/extras/lang-ar.ts",
    "extra-mentions": "src/extras/mentions.ts",
    "extra-tools": "src/extras/tools.ts",
  },
  outdir: out,
});
// The served page (`chatnb serve`) is a small script of its own: it brings the same panel another transport.
await build({
  ...common,
  entryPoints: { page: "src/http_page.ts" },
  outdir: out,
});
