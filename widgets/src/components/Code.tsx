import { h } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { VNode } from "preact";
import { visible } from "../sanitize";
import { t } from "../strings";
import { copyText } from "../clipboard";
import { useExtra } from "./extra";
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
  const language = lang.split(/[\s{]/)[0] ?? "";
  const shown = visible(text);
  const isWanted = isDone && language !== "" && text.length < 50_000;
  const { box, isDrawn } = useExtra<"code", HTMLElement>(isWanted ? "code" : null, (extra) => extra.highlight(shown, language), [text, language]);
  return (
    <figure class="cn-code">
      <figcaption>
        <span>{visible(language)}</span>
        <CopyButton text={() => text} label={t("copyCode")} />
      </figcaption>
      <pre dir="ltr" tabIndex={0}>
        {isDrawn ? <code key="coloured" ref={box} /> : <code key="plain">{shown}</code>}
      </pre>
    </figure>
  );
}
