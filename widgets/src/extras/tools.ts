import type { Connection } from "../connection";
import type { ToolCall } from "../app";
import type { Store } from "../store";

const MAX_OUTPUT = 1024 * 1024;

type Tool = (input: unknown, context: { signal: AbortSignal }) => unknown;

/** Runs `js` client tools, which need blob modules themselves. Their source comes only from the kernel's Python code, with the options. */
class Tools {
  private running = new Map<string, AbortController>();

  constructor(
    private readonly connection: Connection,
    private readonly store: Store,
  ) {}

  abort(): void {
    for (const controller of this.running.values()) controller.abort();
  }

  /** A long source comes beside the options. */
  private async load(hash: string): Promise<Blob> {
    await new Promise<void>((done) => this.connection.assets.whenLoaded(hash, done));
    return this.connection.assets.blob(hash) as Blob;
  }

  async run({ toolCallId, name, input }: ToolCall): Promise<void> {
    if (this.running.has(toolCallId)) return;
    const js = this.store.options.clientTools?.find((tool) => tool.name === name)?.js;
    if (!js) return;
    const controller = new AbortController();
    this.running.set(toolCallId, controller);
    try {
      try {
        await this.connection.command("toolStarted", { toolCallId });
      } catch {
        // It runs elsewhere, or is settled.
        return;
      }
      const source = typeof js === "string" ? js : await this.load(js.asset as string);
      const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
      let tool: Tool;
      try {
        tool = ((await import(url)) as { default: Tool }).default;
      } finally {
        URL.revokeObjectURL(url);
      }
      const output = (await tool(input, { signal: controller.signal })) ?? null;
      const text = JSON.stringify(output);
      if (text.length > MAX_OUTPUT) throw new Error("The output is larger than 1 MiB.");
      await this.connection.command("toolOutput", { toolCallId, output: JSON.parse(text) });
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      await this.connection.command("toolError", { toolCallId, text }).catch(() => undefined);
    } finally {
      this.running.delete(toolCallId);
    }
  }
}

export const create = (connection: Connection, store: Store): Tools => new Tools(connection, store);
