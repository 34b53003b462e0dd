import { h } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { useApp } from "../app";

/** A formula: its source in a code span until the extra is there, then MathML. */
export function Formula({ tex, display }: { tex: string; display: boolean }): VNode {
  const { extras } = useApp();
  const box = useRef<HTMLSpanElement>(null);
  const [drawn, setDrawn] = useState<Node | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    let isCurrent = true;
    void extras.load("math").then((extra) => {
      if (!isCurrent || !extra) return;
      try {
        setDrawn(extra.render(tex, display));
        setError("");
      } catch (reason) {
        setDrawn(null);
        setError(reason instanceof Error ? reason.message : String(reason));
      }
    });
    return () => {
      isCurrent = false;
    };
  }, [tex, display]);
  useEffect(() => {
    if (drawn) box.current?.replaceChildren(drawn);
  }, [drawn]);
  if (drawn) return <span key="drawn" ref={box} class="cn-math" data-display={display ? "" : undefined} dir="ltr" />;
  return (
    <code key="source" class="cn-math" data-display={display ? "" : undefined} title={error || undefined} dir="ltr">
      {tex}
    </code>
  );
}
