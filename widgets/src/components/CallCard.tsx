import { Fragment, h } from "preact";
import type { VNode } from "preact";
import { useStore } from "../app";
import { callName, isAsset } from "../parts";
import type { JsonObject, Part } from "../parts";
import type { CallState, Json } from "../protocol";
import { visible } from "../sanitize";
import { formatDuration, t } from "../strings";
import type { StringKey } from "../strings";
import { Approval } from "./Approval";
import { ClientForm } from "./ClientForm";
import { CopyButton } from "./Code";
import { Icon } from "./Icon";
import type { IconName } from "./Icon";
import { Outputs, Plain } from "./Output";
import { Fold, Value } from "./Value";

interface Look {
  word: StringKey;
  icon: IconName;
  tone: "busy" | "good" | "bad" | "ask" | "quiet";
}

const look = (word: StringKey, icon: IconName, tone: Look["tone"]): Look => ({ word, icon, tone });

/** The state of a call as a word and an icon (spec/widget.md, 5.3). */
export function callLook(part: Part, call: CallState | undefined, isRunning: boolean): Look {
  const phase = call?.phase;
  switch (part.state) {
    case "input-streaming":
      return isRunning ? look("preparing", "spin", "busy") : look("stopped", "block", "quiet");
    case "input-available":
      if (phase === "waiting") return look("waitingKernel", "clock", "busy");
      if (phase === "running" || isRunning) return look("running", "spin", "busy");
      return look("needsAnswer", "hand", "ask");
    case "approval-requested":
      return look("needsApproval", "hand", "ask");
    case "approval-responded":
      if (part.approval?.approved === false) return look("denied", "block", "quiet");
      if (phase === "waiting") return look("waitingKernel", "clock", "busy");
      return phase === "running" ? look("running", "spin", "busy") : look("approved", "check", "busy");
    case "output-available":
      return part.preliminary ? look("running", "spin", "busy") : look("done", "check", "good");
    case "output-denied":
      return look("denied", "block", "quiet");
    case "output-error": {
      const text = part.errorText ?? "";
      if (/effect is unknown|interrupted_write/.test(text)) return look("unknown", "alert", "bad");
      if (/^(?:Not executed|Stopped)|\(cancelled\)/.test(text)) return look("stopped", "block", "quiet");
      return look("failed", "alert", "bad");
    }
    default:
      return look("unknown", "alert", "quiet");
  }
}

const size = (value: Json): number => (isAsset(value) ? value.bytes : (JSON.stringify(value) ?? "").length);

/** Arguments: short ones in view, long ones behind a click. */
export function Arguments({ input, isOpen }: { input: Json; isOpen?: boolean }): VNode | null {
  if (input === undefined || input === null || (typeof input === "object" && Object.keys(input).length === 0)) return null;
  const tree = <Value value={input} isOpen={isOpen} />;
  return isOpen || size(input) <= 300 ? tree : <Fold label={t("arguments")}>{tree}</Fold>;
}

/** An error's first line in view, its traceback behind a click. */
function Failure({ text }: { text: string }): VNode {
  const at = text.search(/\n\s*(?:Traceback|\S+Error)|\n\n/);
  const isLong = text.length > 400 || at >= 0;
  const head = at > 0 ? text.slice(0, at) : isLong ? (text.split("\n")[0] ?? "").slice(0, 300) : text;
  return (
    <Fragment>
      <p class="cn-error" dir="auto">
        {visible(head)}
      </p>
      {isLong && (
        <Fold label={t("traceback")}>
          <Plain value={text} />
        </Fold>
      )}
    </Fragment>
  );
}

function Result({ output, hasOutputs }: { output: Json; hasOutputs: boolean }): VNode | null {
  if (output === null || output === undefined || output === "") return null;
  // What the model is told of it stands on the card already.
  const tree = <Value value={typeof output === "string" ? output.replace(/^\[arguments edited by the person\]\n/, "") : output} />;
  if (hasOutputs || size(output) > 300) return <Fold label={t("result")}>{tree}</Fold>;
  return (
    <div class="cn-result">
      <span class="cn-label">{t("result")}</span>
      {tree}
    </div>
  );
}

/** The result of a call; that of an edited one stands as text below the note that says so. */
function asObject(output: Json): JsonObject | null {
  let value = output;
  if (typeof value === "string" && value.includes("\n{")) {
    try {
      value = JSON.parse(value.slice(value.indexOf("\n{") + 1)) as Json;
    } catch {
      return null;
    }
  }
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : null;
}

/** The names that a run of code has bound or taken away, in view: what the next cell can use. */
function Names({ output }: { output: Json }): VNode | null {
  const result = asObject(output);
  const lines = (["added", "changed", "deleted"] as const).flatMap((key) => {
    const names = result?.[key];
    return Array.isArray(names) && names.length > 0 && names.every((name) => typeof name === "string") ? [{ key, names: names as string[] }] : [];
  });
  if (lines.length === 0) return null;
  return (
    <p class="cn-note">
      {lines.map(({ key, names }) => (
        <span key={key}>
          {t(key)}{" "}
          {names.slice(0, 20).map((name) => (
            <Fragment key={name}>
              <code>{visible(name)}</code>{" "}
            </Fragment>
          ))}
          {names.length > 20 && "… "}
        </span>
      ))}
    </p>
  );
}

function Running({ call }: { call: CallState }): VNode | null {
  const { progress } = call;
  const isOver = call.phase === "done";
  const total = progress?.total ?? undefined;
  return (
    <Fragment>
      {progress && !isOver && (
        <div class="cn-progress">
          <progress aria-label={progress.text ?? t("running")} value={total === undefined ? undefined : progress.done} max={total} />
          {progress.text && <span dir="auto">{visible(progress.text)}</span>}
        </div>
      )}
      {call.log && call.log.length > 0 && (
        <Fold label={t("log")} isOpen={!isOver}>
          <Plain value={call.log.map((line) => String(line.text)).join("\n")} />
        </Fold>
      )}
    </Fragment>
  );
}

/** What the person changed before approving: the values that were asked for. */
function Edited({ part }: { part: Part }): VNode | null {
  const original: Json = part.toolMetadata?.chatnb?.originalInput;
  if (typeof original !== "object" || original === null) return null;
  const changed = Object.keys(original).filter((key) => JSON.stringify(original[key]) !== JSON.stringify(part.input?.[key]));
  if (changed.length === 0) return null;
  return (
    <div class="cn-edited">
      <span>
        <Icon name="edit" />
        {t("edited")}
      </span>
      <div class="cn-result">
        <span class="cn-label">{t("original")}</span>
        <Value value={Object.fromEntries(changed.map((key) => [key, original[key]]))} />
      </div>
    </div>
  );
}

export function CallCard({ part, outputs, isRunning }: { part: Part; outputs: JsonObject[]; isRunning: boolean }): VNode {
  const id = part.toolCallId ?? "";
  const { store } = useStore("call:" + id);
  const call = store.calls.get(id);
  const pending = store.pending.find((item) => item.toolCallId === id);
  const { word, icon, tone } = callLook(part, call, isRunning);
  const name = callName(part);
  const title = part.title || name;
  const reason = part.approval?.reason;
  const isAsking = part.state === "approval-requested" || pending !== undefined;
  const shown = call?.outputs ?? outputs;
  return (
    <div class="cn-card" role="group" data-tool-call-id={id} data-state={part.state} data-tone={tone} aria-label={pending?.kind === "approval" ? t("approvalNeeded", visible(pending.action)) : visible(title)}>
      <header>
        <span class="cn-state-icon">
          <Icon name={icon} />
        </span>
        <span class="cn-card-title" dir="auto">
          {visible(title)}
        </span>
        {pending && title !== name && <code>{visible(name)}</code>}
        <span class="cn-state">{t(word)}</span>
        {typeof call?.durationMs === "number" && <span class="cn-duration">{formatDuration(call.durationMs)}</span>}
      </header>
      <div class="cn-card-body">
        {pending?.kind === "approval" ? (
          <Approval item={pending} />
        ) : (
          <Fragment>
            {part.state === "input-streaming" ? (
              typeof part.rawInput === "string" && part.rawInput !== "" && <Plain value={part.rawInput.slice(-2000)} />
            ) : (
              <Arguments input={part.input} isOpen={isAsking} />
            )}
            {pending && <ClientForm item={pending} />}
          </Fragment>
        )}
        <Edited part={part} />
        {call && <Running call={call} />}
        {shown.length > 0 && <Outputs items={shown} />}
        {part.state === "output-available" && name === "run_code" && <Names output={part.output} />}
        {part.state === "output-available" && <Result output={part.output} hasOutputs={shown.length > 0} />}
        {part.errorText !== undefined && <Failure text={part.errorText} />}
        {part.errorText !== undefined && name === "insert_cell" && <CopyButton text={() => String(part.input?.source ?? "")} label={t("copy")} />}
        {part.state !== "approval-requested" && reason && (
          <p class="cn-note" dir="auto">
            {visible(reason)}
          </p>
        )}
      </div>
    </div>
  );
}
