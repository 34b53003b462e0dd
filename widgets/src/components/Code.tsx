import { h } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { useApp } from "../app";
import { visible } from "../sanitize";
import { t } from "../strings";
import { copyText } from "../clipboard";
import { Icon } from "./Icon";

/** A button that copies, and says so for a moment. */
export function CopyButton({ text, label, isIcon }: { text: () => string; label: string; isIcon?: boolean }): VNode {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return undefined;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = (): void => void copyText(text()).then(setCopied);
  return (
    <button type="button" class={isIcon ? "cn-icon-button" : "cn-quiet"} aria-label={label} title={label} onClick={copy}>
      <Icon name={isCopied ? "check" : "copy"} />
      {!isIcon && <span aria-hidden="true">{t(isCopied ? "copied" : "copy")}</span>}
    </button>
  );
}

/** A block of code: its language, "Copy code", and colours once it is complete and the extra is there. */
export function Code({ text, lang, isDone }: { text: string; lang: string; isDone: boolean }): VNode {
  const { extras } = useApp();
  const language = lang.split(/[\s{]/)[0] ?? "";
  const code = useRef<HTMLElement>(null);
  const [coloured, setColoured] = useState<Node | null>(null);
  useEffect(() => {
    if (!isDone || !language || text.length > 50_000) return undefined;
    let isCurrent = true;
    void extras.load("code").then((extra) => {
      if (isCurrent && extra) setColoured(extra.highlight(text, language));
    });
    return () => {
      isCurrent = false;
      setColoured(null);
    };
  }, [text, language, isDone]);
  useEffect(() => {
    if (coloured && code.current) code.current.replaceChildren(coloured);
  }, [coloured]);
  return (
    <figure class="cn-code">
      <figcaption>
        <span>{visible(language)}</span>
        <CopyButton text={() => text} label={t("copyCode")} />
      </figcaption>
      <pre dir="ltr" tabIndex={0}>
        {coloured ? <code key="coloured" ref={code} /> : <code key="plain">{visible(text)}</code>}
      </pre>
    </figure>
  );
}
