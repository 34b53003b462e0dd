import type { App, Outgoing } from "./app";
import { randomId } from "./ids";
import { CommandError } from "./outbox";

const GRACE = 3000;
const SHOWN = 250;

/** The way of an own message: shown at once, taken back by Stop, given back when refused (spec/widget.md, 3.2 and 5.1). */
export class Sending {
  /** Texts of this view by command, so that a later notice can put one back. */
  private sent = new Map<string, Outgoing>();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly app: App) {}

  send(text: string, files: File[]): void {
    const { app } = this;
    const line: Outgoing = { id: randomId(), text, files };
    this.sent.set(line.id, line);
    app.ui.outgoing = [...app.ui.outgoing, line];
    app.ui.inputError = "";
    this.expect(true);
    app.jump();
    void this.transmit(line);
  }

  private async transmit(line: Outgoing): Promise<void> {
    const { app } = this;
    const buffers = await Promise.all(line.files.map((file) => file.arrayBuffer()));
    const files = line.files.map((file) => ({ name: file.name, mediaType: file.type || "text/plain", size: file.size }));
    try {
      await app.connection.command("send", { text: line.text, ...(files.length ? { files } : {}) }, { id: line.id, buffers });
      // The kernel's own message takes the place of the line; if it is long in coming the line goes first.
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.arrived(), GRACE);
    } catch (error) {
      if (!app.ui.outgoing.includes(line)) return;
      this.drop(line.id);
      this.expect(false);
      app.putBack(line.text, line.files);
      if (error instanceof CommandError && error.code !== "cancelled") app.ui.inputError = error.message;
      app.store.mark("ui");
    }
  }

  private isPending(id: string): boolean {
    return this.app.ui.outgoing.some((line) => line.id === id);
  }

  /** The kernel has shown the message, or queued it. */
  arrived(commandIds?: (string | null | undefined)[]): void {
    const { ui } = this.app;
    const before = ui.outgoing.length;
    ui.outgoing = commandIds ? ui.outgoing.filter((line) => !commandIds.includes(line.id)) : [];
    if (ui.outgoing.length !== before) this.app.store.mark("ui");
    if (!commandIds) this.expect(false);
  }

  /** A user's message has come: the oldest line has become real. */
  shown(count: number): void {
    if (count > 0 && this.app.ui.outgoing.length > 0) {
      this.app.ui.outgoing = this.app.ui.outgoing.slice(count);
      this.app.store.mark("ui");
      // A quick turn may be over in the same frame that shows the message: nothing more is heard of it.
      setTimeout(() => this.heard(), SHOWN);
    }
  }

  /** Something is heard of the turn: from here on the kernel's status decides whether Stop is shown. */
  heard(): void {
    if (this.app.ui.outgoing.length === 0) this.expect(false);
  }

  stop(): void {
    const { app } = this;
    for (const line of [...app.ui.outgoing]) {
      if (!app.connection.outbox.takeBack(line.id)) {
        void app.connection.command("cancel", { commandId: line.id }).then(
          () => {
            if (this.drop(line.id)) app.putBack(line.text, line.files);
          },
          () => undefined,
        );
      }
    }
    this.expect(false);
    void app.connection.command("stop").catch(() => undefined);
  }

  /** Puts the text of a command of this view back into the box. */
  restore(commandId: string): void {
    const line = this.sent.get(commandId);
    if (!line) return;
    this.sent.delete(commandId);
    this.drop(commandId);
    this.expect(false);
    this.app.putBack(line.text, line.files);
  }

  private drop(id: string): boolean {
    const { ui } = this.app;
    const had = this.isPending(id);
    ui.outgoing = ui.outgoing.filter((line) => line.id !== id);
    this.app.store.mark("ui");
    return had;
  }

  private expect(isExpecting: boolean): void {
    if (this.app.ui.isExpecting === isExpecting) return;
    this.app.ui.isExpecting = isExpecting;
    this.app.store.mark("ui");
  }
}
