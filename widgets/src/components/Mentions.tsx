import { h } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { VNode } from "preact";
import { useApp } from "../app";
import type { Box } from "../box";
import { visible } from "../sanitize";

interface Name {
  name: string;
  type: string;
}

const MENTION = /(?:^|[\s([{])@([A-Za-z][\w]*)?$/;

/** Completes `@name` over the kernel's variables (spec/notebook.md, section 5). */
export function Mentions({ box }: { box: Box }): VNode | null {
  const { connection } = useApp();
  const [items, setItems] = useState<Name[]>([]);
  const [active, setActive] = useState(0);
  const [preview, setPreview] = useState("");
  const area = box.area;
  const head = area && document.activeElement === area ? box.text.slice(0, area.selectionStart) : "";
  const match = MENTION.exec(head);
  const prefix = match ? (match[1] ?? "") : null;
  useEffect(() => {
    let isCurrent = true;
    if (prefix === null) setItems([]);
    else {
      connection.command("complete", { prefix }).then(
        (result) => {
          if (isCurrent) setItems((result.items as Name[] | undefined) ?? []);
          setActive(0);
        },
        () => setItems([]),
      );
    }
    return () => {
      isCurrent = false;
    };
  }, [prefix]);
  const current = items[active];
  useEffect(() => {
    let isCurrent = true;
    setPreview("");
    if (current) {
      connection.command("preview", { name: current.name }).then(
        (result) => isCurrent && setPreview(String(result.text ?? "")),
        () => undefined,
      );
    }
    return () => {
      isCurrent = false;
    };
  }, [current?.name]);
  const isShown = prefix !== null && items.length > 0;
  const choose = (name: string): void => {
    const at = head.length - (prefix?.length ?? 0);
    const text = box.text.slice(0, at) + name + " " + box.text.slice(head.length);
    box.set(text);
    requestAnimationFrame(() => area?.setSelectionRange(at + name.length + 1, at + name.length + 1));
    setItems([]);
  };
  box.mentionKey = isShown
    ? (event) => {
        if (event.key === "ArrowDown") setActive((active + 1) % items.length);
        else if (event.key === "ArrowUp") setActive((active + items.length - 1) % items.length);
        else if ((event.key === "Enter" || event.key === "Tab") && current) choose(current.name);
        else if (event.key === "Escape") {
          event.stopPropagation();
          setItems([]);
        } else return false;
        return true;
      }
    : null;
  if (!isShown) return null;
  return (
    <div class="cn-mentions">
      <ul role="listbox" aria-label="@">
        {items.map((item, at) => (
          <li
            key={item.name}
            role="option"
            aria-selected={at === active}
            onPointerDown={(event) => {
              event.preventDefault();
              choose(item.name);
            }}
          >
            <code>{visible(item.name)}</code> <span class="cn-note">{visible(item.type)}</span>
          </li>
        ))}
      </ul>
      {preview && <pre class="cn-pre">{visible(preview)}</pre>}
    </div>
  );
}
