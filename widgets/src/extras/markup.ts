import DOMPurify from "dompurify";
import type { Config } from "dompurify";
import { visible } from "../sanitize";

// The one allow-list of spec/widget.md, section 7. What is not named here is gone.
const HTML =
  "a abbr b bdi blockquote br caption cite code col colgroup dd del details dfn div dl dt em figcaption figure h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark ol p pre q s samp small span strike strong sub summary sup table tbody td tfoot th thead time tr u ul var wbr";
const SVG =
  "svg g path rect circle ellipse line polyline polygon text tspan defs lineargradient radialgradient stop clippath use title desc marker pattern symbol image mask";
const MATHML =
  "math mrow mi mn mo ms mtext mspace mfrac msqrt mroot mstyle merror mpadded mphantom msub msup msubsup munder mover munderover mmultiscripts mprescripts none mtable mtr mtd semantics annotation menclose";
const ATTRIBUTES =
  "href src alt title colspan rowspan scope span start reversed value open datetime dir lang align valign width height style " +
  "viewbox d x y x1 x2 y1 y2 cx cy r rx ry dx dy points transform fill fill-opacity fill-rule stroke stroke-width stroke-opacity stroke-linecap stroke-linejoin stroke-dasharray stroke-dashoffset stroke-miterlimit opacity font-size font-family font-weight font-style text-anchor dominant-baseline offset stop-color stop-opacity gradientunits gradienttransform clip-path clip-rule clippathunits preserveaspectratio markerwidth markerheight refx refy orient patternunits xmlns " +
  "display mathvariant mathsize mathcolor mathbackground displaystyle scriptlevel columnalign rowalign columnspacing rowspacing columnlines rowlines frame framespacing linethickness lspace rspace stretchy symmetric maxsize minsize largeop movablelimits accent accentunder fence separator form notation depth voffset encoding";
const STYLES: Record<string, RegExp> = {
  color: /^[#\w(),.%\s]+$/,
  "background-color": /^[#\w(),.%\s]+$/,
  "font-weight": /^\w+$/,
  "font-style": /^\w+$/,
  "text-align": /^\w+$/,
};
const LINK = /^(?:https?:|mailto:|#)/i;
const DATA_IMAGE = /^data:image\/(?:png|jpe?g|gif|webp)[;,]/i;

const config: Config & { RETURN_DOM_FRAGMENT: true } = {
  ALLOWED_TAGS: [...`${HTML} ${SVG} ${MATHML}`.split(" "), "#text"],
  ALLOWED_ATTR: ATTRIBUTES.split(" "),
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  ALLOW_UNKNOWN_PROTOCOLS: false,
  FORBID_CONTENTS: ["script", "style", "iframe", "object", "embed", "template", "noscript", "audio", "video", "foreignobject", "title"],
  // MathML's annotation with HTML inside is a known hiding place; only its text may stay.
  ADD_DATA_URI_TAGS: [],
  RETURN_DOM_FRAGMENT: true,
};

const purify = DOMPurify(window);

purify.addHook("uponSanitizeAttribute", (_node, data) => {
  const value = data.attrValue.trim();
  data.attrValue = visible(data.attrValue);
  switch (data.attrName) {
    case "href":
    case "xlink:href":
      data.keepAttr = data.attrName === "href" && LINK.test(value);
      break;
    case "src":
      data.keepAttr = DATA_IMAGE.test(value);
      break;
    case "style":
      data.attrValue = plainStyle(value);
      data.keepAttr = data.attrValue !== "";
      break;
    case "title":
    case "alt":
      break;
    default:
      // Paint servers and clips may be named only inside the drawing itself; ids are gone, so they are gone too. With a
      // backslash the style sheets' own escapes could spell one.
      if (/url\s*\(|expression|javascript:|\\/i.test(value)) data.keepAttr = false;
  }
});

purify.addHook("afterSanitizeAttributes", (node) => {
  const name = node.nodeName.toLowerCase();
  if (name === "a" && node.hasAttribute("href")) {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer");
  }
  // In drawings and formulas a reference may only point inside; a link there would be a control in disguise.
  if (node.namespaceURI !== "http://www.w3.org/1999/xhtml" && node.hasAttribute("href") && !node.getAttribute("href")?.startsWith("#")) {
    if (name !== "a") node.removeAttribute("href");
  }
  if (name === "img" && !node.hasAttribute("src")) node.remove();
});

function plainStyle(style: string): string {
  const kept: string[] = [];
  for (const rule of style.split(";")) {
    const [name = "", value = ""] = rule.split(/:(.*)/s).map((piece) => piece.trim().toLowerCase());
    if (STYLES[name]?.test(value) && !/url|expression|var|env/.test(value)) kept.push(`${name}: ${value}`);
  }
  return kept.join("; ");
}

/** Clean nodes of html, svg or MathML; nothing in them can run, load, submit or pass for a control. */
export function clean(markup: string): Node {
  const nodes = purify.sanitize(markup, config);
  const walker = document.createTreeWalker(nodes, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode as Text;
    const text = visible(node.data);
    if (text !== node.data) node.data = text;
  }
  return nodes;
}
