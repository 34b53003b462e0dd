// Of marked only the lexer is used, and of that only what the panel draws: for the bundle and for the tests.

/** What falls away: HTML, which is text here; what GFM replaces; options that never change; the search for emphasis. */
const DEAD = [
  /^var (?:blockPedantic|inlinePedantic|inlineBreaks) = \{[\s\S]*?^\};/gm,
  /^ *(?:pedantic|breaks): (?:blockPedantic|inlinePedantic|inlineBreaks),?$/gm,
  /^var (?:html|tag|_inlineComment|lheading|emStrongLDelim|emStrongRDelimAst|reflinkSearch) = edit\([\s\S]*?\.getRegex\(\);$/gm,
  /^var (?:_comment|inlineText|blockSkip) = .*$/gm,
  /^  (?:html|lheading|emStrongLDelim|emStrongRDelimAst|tag|blockSkip|reflinkSearch),$/gm,
  /^  text: inlineText,$/m,
  /^  text: \/.*$/m,
  /^  (?:html|tag)\(src\) \{[\s\S]*?^  \}$/gm,
  /^ *if \(token = this\.tokenizer\.(?:html|tag)\(src\)\) \{[\s\S]*?continue;\s*\}/gm,
  /^ *(?:startATag|endATag|startPreScriptTag|endPreScriptTag|pedanticHrefTitle|escapeTest\w*|escapeReplace\w*|unescapeTest|percentDecode|spaceLine|notSpaceStart|endingNewline|listReplaceNesting): .*$/gm,
  /^  static (?:get rules|lex|lexInline)\([\s\S]*?^  \}$/gm,
  /^ *if \(this\.options\.silent\) \{[\s\S]*?\} else (?=\{)/gm,
  /^ *if \(this\.options\.extensions\?\.start(?:Block|Inline)\) \{[\s\S]*?^      \}$/gm,
  /^function _getDefaults\(\) \{[\s\S]*?^\}$/m,
  /^var _defaults = .*$/m,
  / \|\| _defaults(?=;)/g,
  // `lexer.ts` masks for itself, in one go.
  /(?<=^    let maskedSrc = src;\n    let match = null;\n)[\s\S]*?(?=^    let keepPrevChar)/m,
];

/**
 * The source of marked's file without what is not used.
 *
 * Tokens are drawn as elements, never as markup, so renderer, parser and hooks can go; the file ends in a facade that
 * holds them alive. Throws where marked has changed.
 */
export function lexerOnly(source) {
  const exports = /export ?\{([^}]*)\};?/.exec(source)?.[1];
  const facade = /(?:const|var) ([\w$]+) ?= ?new [\w$]+(?:\(\))?;\s*function [\w$]+\([\w$]+, ?[\w$]+\) ?\{\s*return \1\.parse\(/.exec(source);
  if (!exports || !facade) throw new Error("marked has changed: its facade is not found");
  const used = exports.split(",").filter((name) => / as (?:Lexer|Tokenizer)$/.test(name.trim()));
  let lexer = source
    .slice(0, facade.index)
    .replace(/this\.options\.(?:pedantic|breaks)\b/g, "false")
    .replace(/this\.options\.gfm\b/g, "true");
  for (const dead of DEAD) {
    const rest = lexer.replace(dead, "");
    if (rest === lexer) throw new Error(`marked has changed: nothing matches ${dead}`);
    lexer = rest;
  }
  // Tabs in the code of a list's item stay tabs.
  const kept = lexer.replace(
    'itemContents += "\\n" + nextLineWithoutTabs.slice(indent)',
    'itemContents += "\\n" + (nextLine.slice(0, indent).trim() === "" && !nextLine.slice(0, indent).includes("\\t") ? nextLine : nextLineWithoutTabs).slice(indent)',
  );
  if (kept === lexer) throw new Error("marked has changed: the lines of an item");
  lexer = kept;
  return `${lexer}export{${used.join(",")}};`;
}
