import { h } from "preact";
import type { ComponentChildren, VNode } from "preact";
import { isAsset } from "../parts";
import type { Json } from "../protocol";
import { visible } from "../sanitize";
import { Code } from "./Code";
import { TooLarge, useAsset } from "./Picture";
import { useEffect, useState } from "preact/hooks";

const isObject = (value: Json): boolean => typeof value === "object" && value !== null;

/** Code that a model wants to run is read before it is approved. */
const isCode = (key: string, value: Json): value is string => typeof value === "string" && /^(?:code|source)$/.test(key);

/** A section that opens on a click. */
export const Fold = ({ label, children, isOpen }: { label: ComponentChildren; children: ComponentChildren; isOpen?: boolean }): VNode => (
  <details class="cn-fold" open={isOpen}>
    <summary>{label}</summary>
    {children}
  </details>
);

/** Text or JSON that travels as an asset. */
export function AssetText({ asset, draw }: { asset: import("../protocol").AssetRef; draw: (text: string) => VNode }): VNode | null {
  const blob = useAsset(asset);
  const [text, setText] = useState<string | null>(null);
  useEffect(() => {
    if (blob) void blob.text().then(setText);
  }, [blob]);
  if (asset.asset === null) return <TooLarge asset={asset} />;
  return text === null ? null : draw(text);
}

function parse(text: string): Json {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** A JSON value as a tree; what is nested deep opens on a click, unless all of it must be seen. */
export function Value({ value, depth = 0, isOpen }: { value: Json; depth?: number; isOpen?: boolean | undefined }): VNode {
  if (isAsset(value)) {
    return <AssetText asset={value} draw={(text) => <Value value={value.mediaType === "application/json" ? parse(text) : text} />} /> as VNode;
  }
  // Deeper than anybody reads it is its text: each level takes of the page's stack.
  if (depth > 50) value = JSON.stringify(value);
  if (typeof value === "string") {
    return value.includes("\n") ? <pre class="cn-pre" dir="auto" tabIndex={0}>{visible(value)}</pre> : <span class="cn-string" dir="auto">{visible(value)}</span>;
  }
  if (!isObject(value)) return <code class="cn-literal">{value === undefined ? "" : String(value)}</code>;
  const entries: [string, Json][] = Object.entries(value);
  if (entries.length === 0) return <code class="cn-literal">{Array.isArray(value) ? "[]" : "{}"}</code>;
  const rows = <Rows entries={entries} depth={depth} isList={Array.isArray(value)} isOpen={isOpen} />;
  if (depth < 1) return rows;
  return <Fold label={Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`} isOpen={isOpen || (depth < 2 && entries.length < 6)}>{rows}</Fold>;
}

const Rows = ({ entries, depth, isList, isOpen }: { entries: [string, Json][]; depth: number; isList: boolean; isOpen: boolean | undefined }): VNode => (
  <dl class="cn-rows">
    {entries.map(([key, value]) => (
      <div key={key} data-long={typeof value === "string" && value.includes("\n") ? "" : undefined}>
        <dt class={isList ? "cn-index" : undefined}>{visible(key)}</dt>
        <dd>
          {isCode(key, value) ? <Code text={value} lang="python" isDone /> : <Value value={value} depth={depth + 1} isOpen={isOpen} />}
        </dd>
      </div>
    ))}
  </dl>
);
