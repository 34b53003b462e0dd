import type { Assets } from "./assets";
import type { Connection } from "./connection";
import type { Store } from "./store";

/** What each extra exports. They are built as modules of their own and imported from a blob URL. */
export interface ExtraModules {
  /** KaTeX: MathML of a formula. Throws with the reason when the TeX is wrong. */
  math: { render(tex: string, display: boolean): Node };
  /** highlight.js: the text as coloured spans, or null for a language that it does not know. */
  code: { highlight(text: string, lang: string): Node | null };
  /** DOMPurify with the allow-list: clean nodes of html or svg. */
  markup: { clean(markup: string): Node };
  /** Forms from a JSON Schema. */
  form: typeof import("./extras/form");
  /** Runs `js` client tools. */
  tools: typeof import("./extras/tools");
  /** Completes names after an `@`. */
  mentions: typeof import("./extras/mentions");
}

export type ExtraName = keyof ExtraModules;

const page = globalThis as Record<symbol, unknown>;

/** Loads extras from the kernel, each once per page. */
export class Extras {
  /** Set once the host has refused a blob module: from then on the plain forms stay. */
  isRefused = false;
  onRefused: () => void = () => undefined;

  constructor(
    private readonly connection: Connection,
    private readonly assets: Assets,
    private readonly store: Store,
  ) {}

  async load<N extends ExtraName>(name: N): Promise<ExtraModules[N] | null> {
    const hash = this.store.options.extras?.[name];
    if (hash === undefined) return null;
    const key = Symbol.for(`chatnb.extra.${name}.${hash}`);
    if (page[key] === undefined) {
      if (!this.connection.isOpen || this.isRefused) return null;
      const loading = this.fetch(name);
      page[key] = loading;
      // A failure is not kept: another view, with another kernel, may do better.
      loading.catch(() => delete page[key]);
    }
    try {
      return (await page[key]) as ExtraModules[N];
    } catch {
      return null;
    }
  }

  private async fetch<N extends ExtraName>(name: N): Promise<ExtraModules[N]> {
    const result = await this.connection.command("getExtra", { name });
    const hash = String(result.hash);
    await new Promise<void>((resolve) => this.assets.whenLoaded(hash, resolve));
    const blob = this.assets.blob(hash);
    const url = URL.createObjectURL(new Blob(blob ? [blob] : [], { type: "text/javascript" }));
    try {
      return (await import(url)) as ExtraModules[N];
    } catch (error) {
      if (!this.isRefused) {
        this.isRefused = true;
        this.onRefused();
      }
      throw error;
    } finally {
      URL.revokeObjectURL(url);
    }
  }
}
