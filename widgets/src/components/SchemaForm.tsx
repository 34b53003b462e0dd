import { h } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { RefObject, VNode } from "preact";
import { useApp } from "../app";
import type { Form } from "../extras/form";
import type { JsonObject } from "../parts";
import { t } from "../strings";

export interface FormHandle {
  read(): JsonObject | null;
  fail(message: string, field?: string): void;
}

/** Fields of a JSON Schema, from the extra; a box for JSON until it is there. */
export function SchemaForm({ schema, values, label, handle }: { schema: JsonObject | null; values: JsonObject; label: string; handle: RefObject<FormHandle | null> }): VNode {
  const { extras } = useApp();
  const box = useRef<HTMLDivElement>(null);
  const area = useRef<HTMLTextAreaElement>(null);
  const [form, setForm] = useState<Form | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    let isCurrent = true;
    if (schema?.properties) {
      void extras.load("form").then((extra) => {
        if (!isCurrent || !extra) return;
        // What was typed into the box for JSON before the fields came is kept.
        let start = values;
        try {
          if (area.current) start = JSON.parse(area.current.value) as JsonObject;
        } catch {
          return;
        }
        const texts = { required: t("fieldRequired"), number: t("fieldNumber"), integer: t("fieldInteger"), json: t("invalidJson") };
        setForm(extra.build(schema, start, texts));
      });
    }
    return () => {
      isCurrent = false;
    };
  }, []);
  useLayoutEffect(() => {
    if (form) box.current?.replaceChildren(form.element);
  }, [form]);
  handle.current = {
      read() {
        if (form) return form.read();
        try {
          const value: unknown = JSON.parse(area.current?.value ?? "");
          if (typeof value === "object" && value !== null && !Array.isArray(value)) {
            // Edited arguments are laid over those shown; only an answer that begins empty has to be whole.
            const required = Object.keys(values).length ? [] : ((schema?.required ?? []) as string[]);
            if (required.some((key) => !(key in value))) {
              setError(t("fieldRequired"));
              return null;
            }
            setError("");
            return value as JsonObject;
          }
        } catch {
          // Told below.
        }
        setError(t("invalidJson"));
        return null;
      },
      fail(message, field) {
        if (form) form.fail(message, field);
        else setError(message);
      },
    };
  if (form) return <div key="fields" ref={box} />;
  const text = JSON.stringify(values, null, 2);
  return (
    <div key="json" class="cn-field">
      <textarea ref={area} class="cn-mono" aria-label={label} rows={Math.min(14, text.split("\n").length + 1)} spellcheck={false} dir="ltr" aria-invalid={error ? "true" : undefined}>
        {text}
      </textarea>
      {error && (
        <p class="cn-field-error" role="alert">
          {error}
        </p>
      )}
    </div>
  );
}
