import { Fragment, h } from "preact";
import type { VNode } from "preact";
import { Markdown } from "../markdown/draw";
import { isAsset } from "../parts";
import type { JsonObject } from "../parts";
import type { Json } from "../protocol";
import { visible } from "../sanitize";
import { t } from "../strings";
import { useExtra } from "./extra";
import { Formula } from "./Formula";
import { Picture } from "./Picture";
import { AssetText, Value } from "./Value";

const text = (value: Json): string => (Array.isArray(value) ? value.join("") : String(value));

/** Markup of a bundle, cleaned by the one sanitiser; its plain text until that is there. */
function Markup({ markup, fallback }: { markup: string; fallback: VNode | null }): VNode {
  const { box, isDrawn } = useExtra<"markup", HTMLDivElement>("markup", (extra) => extra.clean(markup), [markup]);
  return isDrawn ? <div class="cn-markup cn-wide" ref={box} tabIndex={0} role="group" aria-label={t("output")} /> : <Fragment>{fallback}</Fragment>;
}

// Colours and cursor movements of terminals: the letters stay, the colours are left out.
// eslint-disable-next-line no-control-regex
const ANSI = /\u001b\[[0-9;?]*[A-Za-z]/g;

export const Plain = ({ value, isError }: { value: string; isError?: boolean }): VNode => (
  <pre class="cn-pre" dir="auto" tabIndex={0} data-error={isError ? "" : undefined}>
    {visible(value.replace(ANSI, ""))}
  </pre>
);

/** The richest form of a MIME bundle that can be drawn. */
export function Bundle({ bundle }: { bundle: JsonObject }): VNode | null {
  const whole = (type: string, draw: (value: string) => VNode): VNode | null => {
    const value: Json = bundle[type];
    if (value === undefined || value === null) return null;
    return isAsset(value) ? <AssetText asset={value} draw={draw} /> : draw(text(value));
  };
  for (const type of ["image/png", "image/jpeg", "image/gif", "image/webp"]) {
    const value: Json = bundle[type];
    if (value === undefined) continue;
    const alt = text(bundle["text/plain"] ?? "");
    return <Picture url={isAsset(value) ? value : `data:${type};base64,${text(value).replace(/\s/g, "")}`} alt={alt} />;
  }
  const plain = (): VNode | null => whole("text/plain", (value) => <Plain value={value} />);
  return (
    whole("image/svg+xml", (value) => <Markup markup={value} fallback={plain()} />) ??
    whole("text/html", (value) => <Markup markup={value} fallback={plain()} />) ??
    whole("text/markdown", (value) => <Markdown text={value} isDone />) ??
    whole("text/latex", (value) => <Formula tex={value.replace(/^\s*\$+|\$+\s*$/g, "")} display />) ??
    (bundle["application/json"] === undefined ? null : <Value value={bundle["application/json"]} />) ??
    plain()
  );
}

/** What a call printed and displayed, in order (spec/notebook.md, section 3). */
export const Outputs = ({ items }: { items: JsonObject[] }): VNode => (
  <div class="cn-outputs">
    {items.map((item, at) =>
      "stream" in item ? <Plain key={at} value={text(item.text)} isError={item.stream === "stderr"} /> : <Bundle key={at} bundle={(item.data as JsonObject | undefined) ?? item} />,
    )}
  </div>
);
