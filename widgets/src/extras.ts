import type { Assets } from "./assets";
import type { Connection } from "./connection";
import type { Store } from "./store";
import type { StringKey } from "./strings";

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
  /** Footnotes: numbers in the text, and a list at its end. */
  footnotes: typeof import("./extras/footnotes");
  /** Completes names after an `@`. */
  mentions: typeof import("./extras/mentions");
}

/** The texts of one language. */
export interface LanguageModule {
  dir: "ltr" | "rtl";
  strings: Partial<Record<StringKey, string>>;
}

export type ExtraName = keyof ExtraModules | `lang-${string}`;
export type ExtraModule<N extends ExtraName> = N extends keyof ExtraModules ? ExtraModules[N] : LanguageModule;

const page = globalThis as Record<symbol, unknown>;

/** Loads extras from the kernel, each once per page. */
export class Extras {
  /** Set once the host has refused a blob module: from then on the plain forms stay. */
  isRefused = false;
  onRefused: () => void = () => undefined;
  /** Called once the kernel has answered. What is drawn before, of a saved conversation, waits for it. */
  open: () => void = () => undefined;
  private readonly opened = new Promise<void>((resolve) => (this.open = resolve));

  constructor(
    private readonly connection: Connection,
    private readonly assets: Assets,
    private readonly store: Store,
  ) {}

  async load<N extends ExtraName>(name: N): Promise<ExtraModule<N> | null> {
    await this.opened;
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
      return (await page[key]) as ExtraModule<N>;
    } catch {
      return null;
    }
  }

  private async fetch<N extends ExtraName>(name: N): Promise<ExtraModule<N>> {
    const result = await this.connection.command("getExtra", { name });
    const hash = String(result.hash);
    await new Promise<void>((resolve) => this.assets.whenLoaded(hash, resolve, () => void this.connection.command("getExtra", { name }).catch(() => undefined)));
    const blob = this.assets.blob(hash);
    const url = URL.createObjectURL(new Blob(blob ? [blob] : [], { type: "text/javascript" }));
    try {
      return (await import(url)) as ExtraModule<N>;
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
