import type { Json } from "../protocol";
import { visible } from "../sanitize";

type JsonObject = Record<string, Json>;

export interface Form {
  element: HTMLElement;
  /** The values, or null when a field is wrong; the field then says so. */
  read(): JsonObject | null;
  /** Shows an error at a field, or at the form if no field is meant. */
  fail(message: string, field?: string): void;
}

export interface FormTexts {
  required: string;
  number: string;
  integer: string;
  json: string;
}

interface Field {
  key: string;
  element: HTMLElement;
  read(): { ok: true; value: Json | undefined } | { ok: false };
  fail(message: string): void;
}

// What only these fields need comes with them.
const style = document.createElement("style");
style.textContent = `
.chatnb-view .cn-fields { display: grid; gap: 10px; min-width: 0; }
.chatnb-view .cn-fields fieldset { margin: 0; padding: 0; padding-inline-start: 12px; border: 0; border-inline-start: 2px solid var(--chatnb-line); min-width: 0; }
.chatnb-view .cn-field > :is(label, legend) { font-size: 12px; font-weight: 500; padding: 0; }
.chatnb-view .cn-field-note { font-size: 12px; line-height: 1.4; color: var(--chatnb-muted); }
.chatnb-view .cn-field > :is(input:not([type="checkbox"]), select) { width: min(100%, 380px); }
.chatnb-view .cn-tick { grid-template-columns: auto 1fr; column-gap: 8px; align-items: center; min-height: 24px; }
.chatnb-view .cn-tick > [type="checkbox"] { order: -1; width: 16px; height: 16px; min-height: 0; accent-color: var(--chatnb-accent); }
.chatnb-view .cn-tick > p { grid-column: 1 / -1; }
`;
document.head.append(style);

let count = 0;

function make<K extends keyof HTMLElementTagNameMap>(tag: K, className = "", text = ""): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

/** Follows references inside the schema and picks the member of a union with null. */
function resolve(schema: JsonObject, root: JsonObject): JsonObject {
  let current = schema;
  for (let i = 0; i < 20; i += 1) {
    if (typeof current.$ref === "string" && current.$ref.startsWith("#/")) {
      let target: Json = root;
      for (const key of current.$ref.slice(2).split("/")) target = target?.[key];
      const { $ref: _, ...rest } = current;
      current = { ...(target as JsonObject), ...rest };
    } else if (Array.isArray(current.anyOf ?? current.oneOf)) {
      const members = (current.anyOf ?? current.oneOf) as JsonObject[];
      const real = members.filter((member) => member.type !== "null");
      if (real.length !== 1) return { ...current, type: undefined };
      const { anyOf: _a, oneOf: _o, ...rest } = current;
      current = { ...real[0], ...rest, nullable: real.length < members.length };
    } else if (Array.isArray(current.type)) {
      const real = (current.type as string[]).filter((type) => type !== "null");
      current = { ...current, type: real.length === 1 ? real[0] : undefined, nullable: (current.type as string[]).includes("null") };
    } else break;
  }
  return current;
}

function wrap(key: string, schema: JsonObject, isRequired: boolean, control: HTMLElement, isGroup = false): { element: HTMLElement; fail(message: string): void } {
  const id = `chatnb-field-${(count += 1)}`;
  const element = make(isGroup ? "fieldset" : "div", "cn-field");
  // The name by which arguments are known is the property's; a title of a schema is often only its echo.
  const label = make(isGroup ? "legend" : "label", "", visible(key));
  if (!isGroup) {
    (label as HTMLLabelElement).htmlFor = id;
    control.id = id;
  }
  const note = make("p", "cn-field-note", typeof schema.description === "string" ? visible(schema.description) : "");
  note.id = id + "-note";
  const error = make("p", "cn-field-error");
  error.id = id + "-error";
  error.hidden = true;
  control.setAttribute("aria-describedby", `${note.id} ${error.id}`);
  if (isRequired && !isGroup) control.setAttribute("aria-required", "true");
  if (control instanceof HTMLInputElement && control.type === "checkbox") element.classList.add("cn-tick");
  element.append(label, control);
  if (note.textContent) element.append(note);
  element.append(error);
  // What is told of a value does not hold for the next one.
  element.addEventListener("input", () => {
    if (!isGroup) fail("");
  });
  const fail = (message: string): void => {
    error.textContent = message;
    error.hidden = message === "";
    if (message) control.setAttribute("aria-invalid", "true");
    else control.removeAttribute("aria-invalid");
  };
  return { element, fail };
}

function buildField(key: string, raw: JsonObject, root: JsonObject, value: Json, isRequired: boolean, texts: FormTexts): Field {
  const schema = resolve(raw, root);
  const start: Json = value === undefined ? schema.default : value;
  const options: Json[] | undefined = Array.isArray(schema.enum) ? schema.enum : "const" in schema ? [schema.const] : undefined;
  const finish = (control: HTMLElement, read: () => { value: Json | undefined } | string): Field => {
    const box = wrap(key, schema, isRequired, control);
    return {
      key,
      element: box.element,
      fail: box.fail,
      read() {
        const result = read();
        box.fail(typeof result === "string" ? result : "");
        return typeof result === "string" ? { ok: false } : { ok: true, value: result.value };
      },
    };
  };
  const empty = (): { value: Json | undefined } | string =>
    isRequired && !schema.nullable ? texts.required : { value: schema.nullable ? null : undefined };

  if (options) {
    const select = make("select");
    if (!isRequired || schema.nullable || start === undefined) select.append(new Option("", ""));
    options.forEach((option, at) => select.append(new Option(visible(String(option)), String(at), false, option === start)));
    return finish(select, () => (select.value === "" ? empty() : { value: options[Number(select.value)] }));
  }
  if (schema.type === "boolean") {
    const input = make("input");
    input.type = "checkbox";
    input.checked = start === true;
    return finish(input, () => ({ value: input.checked }));
  }
  if (schema.type === "number" || schema.type === "integer") {
    const input = make("input");
    input.type = "text";
    input.inputMode = "decimal";
    input.value = start === undefined || start === null ? "" : String(start);
    return finish(input, () => {
      const text = input.value.trim();
      if (text === "") return empty();
      const number = Number(text);
      if (!Number.isFinite(number)) return texts.number;
      if (schema.type === "integer" && !Number.isInteger(number)) return texts.integer;
      if (typeof schema.minimum === "number" && number < schema.minimum) return `≥ ${schema.minimum}`;
      if (typeof schema.maximum === "number" && number > schema.maximum) return `≤ ${schema.maximum}`;
      return { value: number };
    });
  }
  if (schema.type === "string") {
    const isLong = typeof start === "string" && (start.includes("\n") || start.length > 60);
    const isCode = key === "code" || key === "source";
    const input = isLong || isCode ? make("textarea", "cn-mono") : make("input");
    if (input instanceof HTMLInputElement) {
      input.type = schema.format === "date" ? "date" : schema.format === "date-time" ? "datetime-local" : "text";
    } else input.rows = Math.min(16, Math.max(3, String(start ?? "").split("\n").length));
    input.value = start === undefined || start === null ? "" : String(start);
    return finish(input, () => {
      if (input.value === "" && start !== "" && schema.minLength !== 0) return empty();
      if (typeof schema.minLength === "number" && input.value.length < schema.minLength) return texts.required;
      return { value: input.value };
    });
  }
  const items = schema.type === "array" && schema.items ? resolve(schema.items as JsonObject, root) : undefined;
  if (items && Array.isArray(items.enum)) {
    const choices: Json[] = items.enum;
    const select = make("select");
    select.multiple = true;
    select.size = Math.min(6, choices.length);
    choices.forEach((option, at) => select.append(new Option(visible(String(option)), String(at), false, Array.isArray(start) && start.includes(option))));
    return finish(select, () => {
      const chosen = [...select.selectedOptions].map((option) => choices[Number(option.value)]);
      if (chosen.length === 0 && start === undefined) return isRequired && schema.minItems ? texts.required : { value: isRequired ? [] : undefined };
      return { value: chosen };
    });
  }
  if (schema.type === "object" && schema.properties) {
    const inner = buildFields(schema, root, (start as JsonObject | undefined) ?? {}, texts);
    const control = make("div", "cn-fields");
    control.append(...inner.map((field) => field.element));
    const box = wrap(key, schema, isRequired, control, true);
    return {
      key,
      element: box.element,
      fail: box.fail,
      read() {
        const result = readFields(inner);
        return result ? { ok: true, value: result } : { ok: false };
      },
    };
  }
  const area = make("textarea", "cn-mono");
  area.rows = 3;
  area.value = start === undefined ? "" : JSON.stringify(start, null, 2);
  return finish(area, () => {
    if (area.value.trim() === "") return empty();
    try {
      return { value: JSON.parse(area.value) as Json };
    } catch {
      return texts.json;
    }
  });
}

function buildFields(schema: JsonObject, root: JsonObject, values: JsonObject, texts: FormTexts): Field[] {
  const required = new Set((schema.required as string[] | undefined) ?? []);
  const properties = (schema.properties as Record<string, JsonObject> | undefined) ?? {};
  return Object.entries(properties).map(([key, field]) => buildField(key, field, root, values[key], required.has(key), texts));
}

function readFields(fields: Field[]): JsonObject | null {
  const values: JsonObject = {};
  let isValid = true;
  for (const field of fields) {
    const result = field.read();
    if (!result.ok) isValid = false;
    else if (result.value !== undefined) values[field.key] = result.value;
  }
  return isValid ? values : null;
}

/** A form of a JSON Schema's object, filled with the given values. */
export function build(schema: JsonObject, values: JsonObject, texts: FormTexts): Form {
  const resolved = resolve(schema, schema);
  const fields = buildFields(resolved, schema, values, texts);
  const element = make("div", "cn-fields");
  element.append(...fields.map((field) => field.element));
  const error = make("p", "cn-field-error");
  error.hidden = true;
  element.append(error);
  return {
    element,
    read: () => readFields(fields),
    fail(message, name) {
      const field = fields.find(({ key }) => key === name || name?.startsWith(key + "."));
      if (field) field.fail(message);
      else {
        error.textContent = message;
        error.hidden = message === "";
      }
    },
  };
}
