import { h } from "preact";
import type { VNode } from "preact";
import { useExtra } from "./extra";

/** A formula: its source in a code span until the extra is there, then MathML. */
export function Formula({ tex, display }: { tex: string; display: boolean }): VNode {
  const { box, isDrawn, error } = useExtra<"math", HTMLSpanElement>("math", (extra) => extra.render(tex, display), [tex, display]);
  const mark = display ? "" : undefined;
  if (isDrawn) return <span key="drawn" ref={box} class="cn-math" data-display={mark} dir="ltr" />;
  return (
    <code key="source" class="cn-math" data-display={mark} title={error || undefined} dir="ltr">
      {tex}
    </code>
  );
}
