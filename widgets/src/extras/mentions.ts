import type { Box } from "../box";
import type { Connection } from "../connection";

interface Name {
  name: string;
  type: string;
}

const MENTION = /(?:^|[\s([{])@([A-Za-z]\w*)?$/;
const visible = (text: string): string => text.replace(/[\u202a-\u202e\u2066-\u2069]/g, "");

const STYLE = `
.chatnb-view .cn-mentions { position: absolute; inset-block-end: calc(100% + 4px); inset-inline: 0; z-index: 4; overflow: auto;
  padding: 4px; border: 1px solid var(--chatnb-line); border-radius: 8px; background: var(--chatnb-bg); box-shadow: 0 6px 24px rgb(0 0 0 / 16%); }
.chatnb-view .cn-mentions[hidden] { display: none; }
.chatnb-view .cn-mentions ul { margin: 0; padding: 0; list-style: none; }
.chatnb-view .cn-mentions li { padding: 3px 8px; border-radius: 5px; cursor: pointer; }
.chatnb-view .cn-mentions li[aria-selected="true"] { background: var(--chatnb-soft); }
.chatnb-view .cn-mentions p { margin: 0; padding: 0 8px 4px; }
.chatnb-view .cn-mentions p:empty { display: none; }
.chatnb-view .cn-mentions .cn-pre { margin: 4px 0 0; padding: 6px 8px; border-top: 1px solid var(--chatnb-line); color: var(--chatnb-muted); }
`;
const style = document.createElement("style");
style.textContent = STYLE;
document.head.append(style);

/** Completes `@name` over the kernel's variables, and shows what a name would send (spec/notebook.md, section 5). */
class Mentions {
  private items: Name[] = [];
  private active = 0;
  private prefix: string | null = null;
  private head = "";
  private readonly list = document.createElement("ul");
  private readonly preview = document.createElement("pre");
  private readonly cost = document.createElement("p");

  constructor(
    private readonly frame: HTMLElement,
    private readonly box: Box,
    private readonly connection: Connection,
    private readonly sayTokens: (count: number) => string,
  ) {
    frame.className = "cn-mentions";
    frame.hidden = true;
    this.list.setAttribute("role", "listbox");
    this.list.setAttribute("aria-label", "@");
    this.preview.className = "cn-pre";
    this.cost.className = "cn-note";
    frame.append(this.list, this.preview, this.cost);
    box.mentionKey = (event) => this.onKey(event);
  }

  /** Looks at what stands before the caret. */
  update(): void {
    const { area, text } = this.box;
    this.head = area && document.activeElement === area ? text.slice(0, area.selectionStart) : "";
    const match = MENTION.exec(this.head);
    const prefix = match ? (match[1] ?? "") : null;
    if (prefix === this.prefix) return;
    this.prefix = prefix;
    if (prefix === null) this.show([]);
    else {
      this.connection.command("complete", { prefix }).then(
        (result) => {
          if (this.prefix === prefix) this.show((result.items as Name[] | undefined) ?? []);
        },
        () => this.show([]),
      );
    }
  }

  private show(items: Name[]): void {
    this.items = items;
    this.frame.hidden = items.length === 0;
    this.list.replaceChildren(
      ...items.map(({ name, type }) => {
        const row = document.createElement("li");
        row.setAttribute("role", "option");
        const code = document.createElement("code");
        code.textContent = visible(name);
        const note = document.createElement("span");
        note.className = "cn-note";
        note.textContent = " " + visible(type);
        row.append(code, note);
        row.addEventListener("pointerdown", (event) => {
          event.preventDefault();
          this.choose(name);
        });
        return row;
      }),
    );
    if (items.length === 0) return;
    // As high as there is room above the box: all of what would be sent is to be seen.
    const top = this.frame.closest(".cn-panel")?.getBoundingClientRect().top ?? 0;
    const room = (this.frame.parentElement?.getBoundingClientRect().top ?? 0) - top - 12;
    this.frame.style.maxHeight = `${Math.max(120, Math.min(380, room))}px`;
    this.select(0);
  }

  private select(at: number): void {
    this.active = (at + this.items.length) % this.items.length;
    [...this.list.children].forEach((row, index) => {
      row.setAttribute("aria-selected", String(index === this.active));
      if (index === this.active) row.scrollIntoView({ block: "nearest" });
    });
    const name = this.items[this.active]?.name ?? "";
    this.preview.textContent = this.cost.textContent = "";
    this.connection.command("preview", { name }).then(
      (result) => {
        if (this.items[this.active]?.name !== name) return;
        this.preview.textContent = visible(String(result.text ?? ""));
        if (typeof result.tokens === "number") this.cost.textContent = "≈ " + this.sayTokens(result.tokens);
      },
      () => undefined,
    );
  }

  private choose(name: string): void {
    const at = this.head.length - (this.prefix?.length ?? 0);
    this.box.set(this.box.text.slice(0, at) + name + " " + this.box.text.slice(this.head.length));
    const caret = at + name.length + 1;
    requestAnimationFrame(() => this.box.area?.setSelectionRange(caret, caret));
    this.prefix = null;
    this.show([]);
  }

  private onKey(event: KeyboardEvent): boolean {
    if (this.items.length === 0) return false;
    const name = this.items[this.active]?.name;
    if (event.key === "ArrowDown") this.select(this.active + 1);
    else if (event.key === "ArrowUp") this.select(this.active - 1);
    else if ((event.key === "Enter" || event.key === "Tab") && name !== undefined) this.choose(name);
    else if (event.key === "Escape") {
      event.stopPropagation();
      this.show([]);
    } else return false;
    return true;
  }
}

export const create = (frame: HTMLElement, box: Box, connection: Connection, sayTokens: (count: number) => string): Mentions =>
  new Mentions(frame, box, connection, sayTokens);
