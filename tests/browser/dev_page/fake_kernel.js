// A kernel of paper: it answers hello with a scenario's snapshot and acks commands, all in the page.

export class FakeKernel {
  constructor(snapshot, { script, extras = {} } = {}) {
    this.snapshot = snapshot;
    this.script = script;
    this.extras = extras;
    this.epoch = "epoch-1";
    this.seq = 0;
    this.listeners = new Map();
    this.commands = [];
    this.traits = { height: "560px", theme: "auto" };
    this.isSilent = false;
    this.isGone = false;
    this.isPlayed = false; // the script, where there is one
  }

  // --- what anywidget's model has
  get(name) {
    return this.traits[name];
  }

  set(name, value) {
    this.traits[name] = value;
  }

  on(event, fn) {
    if (!this.listeners.has(event)) this.listeners.set(event, new Set());
    this.listeners.get(event).add(fn);
  }

  off(event, fn) {
    this.listeners.get(event)?.delete(fn);
  }

  send(command, _callbacks, buffers) {
    if (this.isGone) throw new Error("Cannot send");
    this.commands.push(command);
    if (!this.isSilent) queueMicrotask(() => this.receive(command, buffers));
  }

  // --- the kernel's side
  emit(event, ...args) {
    for (const fn of [...(this.listeners.get(event) ?? [])]) fn(...args);
  }

  frame(content, buffers = []) {
    this.emit("msg:custom", { v: 1, epoch: this.epoch, ...content }, buffers);
  }

  ops(...ops) {
    this.seq += 1;
    this.frame({ type: "ops", seq: this.seq, ops });
  }

  receive(command) {
    const { view: to, id } = command;
    if (command.type === "hello") {
      this.frame({ type: "secret", to, nonce: "0".repeat(32) });
      this.frame({ type: "reset", to, seq: this.seq, snapshot: this.snapshot, reason: "hello", index: 0, count: 1 });
      if (!this.started) {
        this.started = true;
        void Promise.resolve(this.script?.(this)).then(() => (this.isPlayed = true));
      }
      return;
    }
    if (command.type === "getExtra") {
      const source = this.extras[command.name];
      if (source === undefined) {
        this.frame({ type: "ack", to, id, ok: false, error: { code: "not_found", message: "No such extra." } });
        return;
      }
      const bytes = new TextEncoder().encode(source);
      this.frame({ type: "ack", to, id, ok: true, result: { hash: "extra-" + command.name } });
      this.frame({ type: "asset", hash: "extra-" + command.name, mediaType: "text/javascript", index: 0, count: 1, name: command.name }, [
        new DataView(bytes.buffer),
      ]);
      return;
    }
    const answer = this.answers?.[command.type]?.(command) ?? {};
    this.frame({ type: "ack", to, id, ok: !answer.error, ...answer });
  }
}

export const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
