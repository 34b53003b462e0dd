import type { Assets } from "./assets";
import { randomId } from "./ids";
import { Outbox, CommandError } from "./outbox";
import type { CommandOptions } from "./outbox";
import type { CommandType, JsonObject } from "./parts";
import { VERSION } from "./protocol";
import type {
  Frame,
  InsertCellFrame,
  MarkFrame,
  OpsFrame,
  PageFrame,
  ResetFrame,
  RunFrame,
  Snapshot,
} from "./protocol";
import type { Store } from "./store";
import type { Transport } from "./transport";

export type Phase = "connecting" | "live" | "waiting" | "gone" | "readonly";

export interface Environment {
  locale: string;
  dark: boolean;
  canInsert: boolean;
}

const HELLO_FAST = 250;
const HELLO_SLOW = 1000;
const RESYNC = 500;
const SILENCE = 5000;

function onPage(event: string, fn: () => void): () => void {
  addEventListener(event, fn);
  return () => removeEventListener(event, fn);
}

/** Says hello, keeps the view in step with the kernel, and carries commands (spec/widget.md, section 3). */
export class Connection {
  readonly view = randomId();
  phase: Phase = "connecting";
  /** True once the kernel has answered: only then does the page stand for a living chat. */
  wasLive = false;
  unsupported: { package: string } | null = null;
  epoch = "";
  nonce = "";
  onChange: () => void = () => undefined;
  onRun: (frame: RunFrame) => void = () => undefined;
  onInsertCell: (frame: InsertCellFrame) => void = () => undefined;
  onTurnEnd: () => void = () => undefined;
  readonly outbox: Outbox;

  private seq = -1;
  private answered = false;
  private started = 0;
  private helloAt = -Infinity;
  private helloTimer: ReturnType<typeof setTimeout> | undefined;
  private resyncTimer: ReturnType<typeof setTimeout> | undefined;
  private silenceTimer: ReturnType<typeof setInterval> | undefined;
  private heardAt = 0;
  private early: OpsFrame[] = [];
  private pieces: { seq: number; frames: ResetFrame[]; timer: ReturnType<typeof setTimeout> } | null = null;
  private pages = new Map<string, PageFrame[]>();
  private unsubscribe: (() => void)[] = [];
  private stopped = false;

  constructor(
    private readonly transport: Transport,
    private readonly store: Store,
    readonly assets: Assets,
    private readonly environment: () => Environment,
  ) {
    this.outbox = new Outbox({
      transmit: (content, buffers) => this.transmit(content, buffers),
      stamp: () => ({ v: VERSION, epoch: this.epoch, view: this.view }),
      onWaiting: () => {
        if (this.isOpen) this.setPhase(this.outbox.isWaiting ? "waiting" : "live");
      },
    });
    assets.request = (hash) => {
      if (this.isOpen) void this.command("getAsset", { hash }).catch(() => undefined);
    };
  }

  get isOpen(): boolean {
    return this.phase === "live" || this.phase === "waiting";
  }

  start(): void {
    this.started = Date.now();
    this.unsubscribe = [
      this.transport.onMessage((content, buffers) => this.receive(content as Frame, buffers)),
      this.transport.onGone(() => this.gone()),
      // A page that is left, or comes back as it was.
      onPage("pagehide", () => this.bye()),
      onPage("pageshow", () => this.requestReset()),
    ];
    this.sayHello();
    this.silenceTimer = setInterval(() => {
      // Some hosts deliver nothing by themselves (Colab).
      const patience = this.store.state.helloEvery ?? (this.store.isRunning ? SILENCE : Infinity);
      if (!this.isOpen || !this.answered || Date.now() - this.heardAt < patience) return;
      // Only a question: a current view goes on applying what comes.
      this.heardAt = Date.now();
      this.transmitHello();
    }, 1000);
  }

  stop(): void {
    this.bye();
    this.stopped = true;
    this.halt();
    for (const fn of this.unsubscribe) fn();
  }

  private bye(): void {
    if (this.phase !== "gone" && this.answered) {
      try {
        this.transport.send({ ...this.outbox.stamp(), id: randomId(), type: "bye" });
      } catch {
        // Best effort.
      }
    }
  }

  /** Sends a command and waits for its ack. Rejects with a `CommandError` whose message is for people. */
  command(type: CommandType, fields: JsonObject = {}, options: CommandOptions = {}): Promise<JsonObject> {
    if (this.phase === "gone" || this.unsupported) return Promise.reject(new CommandError("closed", ""));
    return this.outbox.send(type, fields, options);
  }

  private transmit(content: JsonObject, buffers?: ArrayBuffer[]): void {
    try {
      this.transport.send(content, buffers);
    } catch {
      this.gone();
    }
  }

  private sayHello(): void {
    clearTimeout(this.helloTimer);
    if (this.stopped || this.answered || this.phase === "gone" || this.unsupported) return;
    this.transmitHello();
    const waited = Date.now() - this.started;
    if (waited >= 2000 && this.phase === "connecting" && this.transport.saved()) this.setPhase("readonly");
    this.helloTimer = setTimeout(() => this.sayHello(), waited < 2000 ? HELLO_FAST : HELLO_SLOW);
  }

  /** Shows a running reply that was held back. */
  resume(): void {
    this.transmitHello(true);
  }

  private transmitHello(resume?: boolean): void {
    this.helloAt = Date.now();
    const { locale, dark, canInsert } = this.environment();
    this.transmit({
      ...this.outbox.stamp(),
      id: randomId(),
      type: "hello",
      versions: [VERSION],
      ...(this.seq >= 0 ? { last: { epoch: this.epoch, seq: this.seq } } : {}),
      have: this.assets.have,
      locale,
      dark,
      canInsert,
      resume,
    });
  }

  /** Asks for the present state, at most once in 500 ms; nothing is applied until the answer. */
  requestReset(): void {
    if (!this.answered || this.stopped) return;
    this.answered = false;
    const wait = Math.max(0, this.helloAt + RESYNC - Date.now());
    clearTimeout(this.resyncTimer);
    this.resyncTimer = setTimeout(() => {
      this.started = Date.now() - 2000;
      if (!this.answered) this.sayHello();
    }, wait);
  }

  private receive(frame: Frame, buffers: DataView[]): void {
    if (this.stopped || this.phase === "gone" || typeof frame !== "object" || frame === null) return;
    if ("to" in frame && frame.to !== this.view) return;
    this.heardAt = Date.now();
    switch (frame.type) {
      case "secret":
        this.adopt(frame.epoch);
        this.nonce = frame.nonce;
        this.outbox.flush();
        break;
      case "reset":
        this.receiveReset(frame);
        break;
      case "mark":
        this.receiveMark(frame);
        break;
      case "ops":
        this.receiveOps(frame);
        break;
      case "ack":
        if (frame.error?.code === "stale_epoch" || frame.error?.code === "bad_nonce") this.requestReset();
        this.outbox.settle(frame);
        break;
      case "page":
        this.receivePage(frame);
        break;
      case "asset":
        if (buffers[0]) this.assets.add(frame, buffers[0]);
        break;
      case "unsupported":
        this.unsupported = { package: frame.package };
        this.halt();
        this.setPhase("readonly");
        break;
      case "run":
        this.onRun(frame);
        break;
      case "insertCell":
        this.onInsertCell(frame);
        break;
    }
  }

  private adopt(epoch: string): void {
    if (epoch === this.epoch) return;
    this.epoch = epoch;
    this.seq = -1;
    this.early = this.early.filter((ops) => ops.epoch === epoch);
  }

  private settleHello(): void {
    this.answered = true;
    this.wasLive = true;
    clearTimeout(this.helloTimer);
    if (!this.isOpen) this.setPhase("live");
    this.applyEarly();
  }

  private receiveReset(frame: ResetFrame): void {
    this.adopt(frame.epoch);
    if (!this.pieces || this.pieces.seq !== frame.seq || this.pieces.frames.length !== frame.count) {
      clearTimeout(this.pieces?.timer);
      const timer = setTimeout(() => {
        this.pieces = null;
        this.answered = true;
        this.requestReset();
      }, 1000);
      this.pieces = { seq: frame.seq, frames: new Array<ResetFrame>(frame.count), timer };
    }
    const { frames, timer } = this.pieces;
    frames[frame.index] = frame;
    clearTimeout(this.helloTimer);
    for (let i = 0; i < frame.count; i += 1) if (!frames[i]) return;
    clearTimeout(timer);
    this.pieces = null;
    // A repeated hello may be answered late: what it tells is older than what is shown already.
    if (frame.seq < this.seq) {
      this.settleHello();
      return;
    }
    const messages = frames.flatMap((piece) => piece.snapshot.messages ?? []);
    const snapshot: Partial<Snapshot> = { ...(frames[0] as ResetFrame).snapshot, messages };
    if (frame.seq !== this.seq || !this.answered) this.store.reset(snapshot);
    this.seq = frame.seq;
    this.settleHello();
  }

  private applyEarly(): void {
    const early = this.early.sort((a, b) => a.seq - b.seq);
    this.early = [];
    for (const ops of early) if (ops.epoch === this.epoch && ops.seq > this.seq) this.receiveOps(ops);
  }

  private receiveMark(frame: MarkFrame): void {
    if (frame.epoch !== this.epoch || this.seq < 0) return;
    if (frame.seq > this.seq) this.requestReset();
    else if (frame.seq === this.seq && !this.pieces) this.settleHello();
  }

  private receiveOps(frame: OpsFrame): void {
    if (this.epoch !== "" && frame.epoch !== this.epoch) {
      this.requestReset();
      return;
    }
    if (!this.answered || this.pieces) {
      if (this.early.length < 2000) this.early.push(frame);
      return;
    }
    if (frame.seq <= this.seq) return;
    if (frame.seq !== this.seq + 1) {
      this.early.push(frame);
      this.requestReset();
      return;
    }
    this.seq = frame.seq;
    const wasRunning = this.store.isRunning;
    if (!this.store.apply(frame.ops)) this.requestReset();
    if (wasRunning && !this.store.isRunning) this.onTurnEnd();
  }

  private receivePage(frame: PageFrame): void {
    const frames = this.pages.get(frame.before) ?? new Array<PageFrame>(frame.count);
    this.pages.set(frame.before, frames);
    frames[frame.index] = frame;
    for (let i = 0; i < frame.count; i += 1) if (!frames[i]) return;
    this.pages.delete(frame.before);
    const messages = frames.flatMap((piece) => piece.messages);
    this.store.prepend(frame.before, messages, frame.hasEarlier);
  }

  private gone(): void {
    if (this.phase === "gone" || this.stopped) return;
    this.halt();
    this.store.close();
    this.setPhase(this.wasLive || !this.transport.saved() ? "gone" : "readonly");
    if (this.phase === "readonly") this.unsubscribe.splice(0).forEach((fn) => fn());
    this.outbox.fail("closed");
  }

  private halt(): void {
    clearTimeout(this.helloTimer);
    clearTimeout(this.resyncTimer);
    clearInterval(this.silenceTimer);
    clearTimeout(this.pieces?.timer);
    this.outbox.halt();
  }

  private setPhase(phase: Phase): void {
    if (this.phase === phase || this.phase === "gone") return;
    this.phase = phase;
    this.onChange();
  }
}
