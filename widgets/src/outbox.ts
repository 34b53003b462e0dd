import type { CommandType, JsonObject } from "./parts";
import type { AckFrame } from "./protocol";
import { randomId } from "./ids";

/** What a command was refused for. `message` is one sentence for people. */
export class CommandError extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly field?: string,
  ) {
    super(message);
  }
}

export interface CommandOptions {
  /** The id to use; a caller may need it before the ack, to cancel. */
  id?: string;
  buffers?: ArrayBuffer[];
  /** Called after one second without an answer, and again with false when it comes. */
  onWaiting?: (isWaiting: boolean) => void;
}

interface Command {
  id: string;
  type: CommandType;
  content: JsonObject;
  buffers: ArrayBuffer[] | undefined;
  resolve: (result: JsonObject) => void;
  reject: (error: CommandError) => void;
  onWaiting: ((isWaiting: boolean) => void) | undefined;
  tries: number;
  isWaiting: boolean;
  timers: ReturnType<typeof setTimeout>[];
}

interface Port {
  transmit: (content: JsonObject, buffers?: ArrayBuffer[]) => void;
  stamp: () => { v: number; epoch: string; view: string };
  onWaiting: () => void;
}

/** Commands that change the history: they go one at a time, each after the ack of the one before. */
const SERIAL = new Set<CommandType>([
  "send",
  "act",
  "regenerate",
  "edit",
  "rollback",
  "switch",
  "remove",
  "undo",
  "redo",
  "clear",
  "continue",
  "discard",
  "restore",
]);

const RESEND = [2000, 4000, 8000];
const RESEND_LATER = 10_000;
const BUSY = 1000;

/** Commands on their way. Each is sent until it is acked, always with the same id. */
export class Outbox {
  private waiting: Command[] = [];
  private sent = new Map<string, Command>();

  constructor(private readonly port: Port) {}

  get stamp(): Port["stamp"] {
    return this.port.stamp;
  }

  get isWaiting(): boolean {
    return [...this.sent.values()].some((command) => command.isWaiting);
  }

  send(type: CommandType, fields: JsonObject, options: CommandOptions): Promise<JsonObject> {
    return new Promise((resolve, reject) => {
      const id = options.id ?? randomId();
      const command: Command = {
        id,
        type,
        content: fields,
        buffers: options.buffers,
        resolve,
        reject,
        onWaiting: options.onWaiting,
        tries: 0,
        isWaiting: false,
        timers: [],
      };
      command.timers.push(setTimeout(() => this.setWaiting(command, true), BUSY));
      this.waiting.push(command);
      this.flush();
    });
  }

  /** Sends what may go now. Nothing can before the first answer: there is no epoch to name. */
  flush(): void {
    if (this.port.stamp().epoch === "") return;
    for (const command of [...this.waiting]) {
      const isBlocked = SERIAL.has(command.type) && [...this.sent.values()].some((other) => SERIAL.has(other.type));
      if (isBlocked) continue;
      this.waiting.splice(this.waiting.indexOf(command), 1);
      this.sent.set(command.id, command);
      // The epoch is named once: a repeated command must not reach another kernel.
      command.content = { ...this.port.stamp(), id: command.id, type: command.type, ...command.content };
      this.transmit(command);
    }
  }

  /** Whether a command of this id has not been sent at all; if so it is taken back. */
  takeBack(id: string): boolean {
    const at = this.waiting.findIndex((command) => command.id === id);
    if (at < 0) return false;
    const [command] = this.waiting.splice(at, 1);
    if (command) this.finish(command)?.reject(new CommandError("cancelled", ""));
    return true;
  }

  settle(ack: AckFrame): void {
    const command = this.sent.get(ack.id);
    if (!command) return;
    this.sent.delete(ack.id);
    this.finish(command);
    if (ack.ok) command.resolve(ack.result ?? {});
    else command.reject(new CommandError(ack.error?.code ?? "failed", ack.error?.message ?? "", ack.error?.field ?? undefined));
    this.flush();
  }

  /** Ends all commands: nobody will answer them any more. */
  fail(code: string): void {
    const all = [...this.waiting, ...this.sent.values()];
    this.waiting = [];
    this.sent.clear();
    for (const command of all) this.finish(command).reject(new CommandError(code, ""));
  }

  halt(): void {
    for (const command of [...this.waiting, ...this.sent.values()]) command.timers.forEach(clearTimeout);
  }

  private finish(command: Command): Command {
    command.timers.forEach(clearTimeout);
    this.setWaiting(command, false);
    return command;
  }

  private setWaiting(command: Command, isWaiting: boolean): void {
    if (command.isWaiting === isWaiting) return;
    command.isWaiting = isWaiting;
    command.onWaiting?.(isWaiting);
    this.port.onWaiting();
  }

  private transmit(command: Command): void {
    this.port.transmit(command.content, command.buffers);
    if (!this.sent.has(command.id)) return;
    const delay = RESEND[command.tries] ?? RESEND_LATER;
    command.tries += 1;
    command.timers.push(setTimeout(() => this.transmit(command), delay));
  }
}
