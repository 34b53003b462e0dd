import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { RefObject } from "preact";
import { useApp } from "../app";
import type { ExtraModule, ExtraName } from "../extras";

/** Nodes that an extra makes, put into the element of `box` once they are there; null until then. */
export function useExtra<N extends ExtraName, E extends HTMLElement>(
  name: N | null,
  make: (extra: ExtraModule<N>) => Node | null,
  inputs: unknown[],
): { box: RefObject<E | null>; isDrawn: boolean; error: string } {
  const { extras } = useApp();
  const box = useRef<E>(null);
  const [drawn, setDrawn] = useState<Node | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    let isCurrent = true;
    if (name) {
      void extras.load(name).then((extra) => {
        if (!isCurrent || !extra) return;
        try {
          setDrawn(make(extra));
          setError("");
        } catch (reason) {
          setDrawn(null);
          setError(String((reason as Error).message));
        }
      });
    } else setDrawn(null);
    return () => {
      isCurrent = false;
    };
  }, [name, ...inputs]);
  // Before paint: nothing is empty for a frame.
  useLayoutEffect(() => {
    if (drawn) box.current?.replaceChildren(drawn);
  }, [drawn]);
  return { box, isDrawn: drawn !== null, error };
}
