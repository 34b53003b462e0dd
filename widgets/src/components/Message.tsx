import { Fragment, h } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
import { useApp, useCommand, useStore } from "../app";
import { Markdown } from "../markdown/draw";
import { isAsset, isCall, textOf } from "../parts";
import type { JsonObject, Part } from "../parts";
import { visible } from "../sanitize";
import type { Item } from "../store";
import { t } from "../strings";
import { CallCard } from "./CallCard";
import { Icon } from "./Icon";
import { Picture } from "./Picture";
import { Toolbar } from "./Toolbar";
import { AssetText } from "./Value";
import { Note } from "./Note";

function Reasoning({ text, isOpen: isRunning }: { text: string; isOpen: boolean }): VNode {
  const started = useRef(isRunning ? Date.now() : 0);
  const [seconds, setSeconds] = useState<number | null>(null);
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    if (isRunning && started.current === 0) started.current = Date.now();
    if (!isRunning && started.current > 0 && seconds === null) setSeconds(Math.max(1, Math.round((Date.now() - started.current) / 1000)));
  }, [isRunning]);
  const label = isRunning ? t("thinking") : seconds === null ? t("thought") : t("thoughtFor", seconds);
  return (
    <div class="cn-reasoning" data-running={isRunning ? "" : undefined}>
      <button type="button" class="cn-quiet" aria-expanded={isShown} onClick={() => setShown(!isShown)}>
        <Icon name="right" />
        {label}
      </button>
      {isShown && <Markdown text={text} isDone={!isRunning} />}
    </div>
  );
}

function Text({ item, part, at, isOpen }: { item: Item; part: Part; at: number; isOpen: boolean }): VNode | null {
  const command = useCommand();
  if (isAsset(part.text)) return <AssetText asset={part.text} draw={(text) => <Markdown text={text} isDone />} />;
  const text = part.text ?? "";
  const isCut = (part.cut?.before ?? 0) + (part.cut?.after ?? 0) > 0;
  return (
    <Fragment>
      {item.role === "user" ? (
        <p class="cn-words" dir="auto">
          {visible(text)}
        </p>
      ) : (
        <Markdown text={text} isDone={!isOpen} />
      )}
      {isCut && (
        <button type="button" class="cn-button" disabled={command.isBusy} onClick={() => void command.run("loadPart", { messageId: item.id, index: at })}>
          {t("showAll")}
        </button>
      )}
    </Fragment>
  );
}

const isImage = (part: Part): boolean => (part.mediaType ?? "").startsWith("image/");

function File({ part }: { part: Part }): VNode {
  const { assets } = useApp();
  const name = visible(part.filename ?? part.mediaType ?? "");
  if (isImage(part) && part.url !== undefined) return <Picture url={part.url} alt={name} />;
  const asset = isAsset(part.url) ? part.url : null;
  const href = asset?.asset ? assets.url(asset.asset) : typeof part.url === "string" && part.url.startsWith("data:") ? part.url : undefined;
  return (
    <a class="cn-chip" href={href} download={href ? name : undefined}>
      <Icon name="file" />
      <span dir="auto">{name}</span>
    </a>
  );
}

function Sources({ parts }: { parts: Part[] }): VNode | null {
  if (parts.length === 0) return null;
  return (
    <section class="cn-sources" aria-label={t("sources")}>
      <ol>
        {parts.map((part) => {
          const title = visible(part.title ?? (typeof part.url === "string" ? part.url : (part.filename ?? "")));
          const isLink = typeof part.url === "string" && /^https?:/i.test(part.url);
          return (
            <li key={part.sourceId} dir="auto">
              {isLink ? (
                <a href={part.url as string} target="_blank" rel="noopener noreferrer">
                  {title}
                </a>
              ) : (
                title
              )}
            </li>
          );
        })}
      </ol>
    </section>
  );
}

const outputsOf = (parts: Part[], id: string | undefined): JsonObject[] => {
  const found = parts.find((part) => part.type === "data-output" && (part.data?.toolCallId ?? part.id) === id);
  return (found?.data?.outputs as JsonObject[] | undefined) ?? [];
};

function PartView({ item, part, at, isOpen, isRunning }: { item: Item; part: Part; at: number; isOpen: boolean; isRunning: boolean }): VNode | null {
  if (isCall(part)) return <CallCard part={part} outputs={outputsOf(item.parts, part.toolCallId)} isRunning={isRunning} />;
  switch (part.type) {
    case "text":
      return <Text item={item} part={part} at={at} isOpen={isOpen} />;
    case "reasoning":
      return <Reasoning text={typeof part.text === "string" ? part.text : ""} isOpen={isOpen} />;
    case "file":
    case "reasoning-file":
      return <File part={part} />;
    case "data-steering-message":
    case "steering-message": {
      const parts: Part[] = part.parts ?? part.data?.parts ?? [];
      return (
        <p class="cn-words cn-steering" dir="auto">
          {visible(textOf(parts) || String(part.data?.text ?? ""))}
        </p>
      );
    }
    case "data-variable":
      return (
        <span class="cn-chip" title={visible(String(part.data?.summary ?? ""))}>
          <Icon name="file" />
          <code>@{visible(String(part.data?.name ?? ""))}</code>
        </span>
      );
    case "data-retry":
    case "data-compaction":
      return isOpen ? <p class="cn-note">{visible(String(part.data?.text ?? part.data?.message ?? ""))}</p> : null;
    default:
      return null;
  }
}

/** Edits a user's message in place. */
function Editor({ item, onDone }: { item: Item; onDone: () => void }): VNode {
  const area = useRef<HTMLTextAreaElement>(null);
  const command = useCommand();
  // Before it is seen: a letter typed at once must not go elsewhere, nor a selection be undone.
  useLayoutEffect(() => {
    area.current?.focus();
    area.current?.setSelectionRange(area.current.value.length, area.current.value.length);
  }, []);
  const save = async (): Promise<void> => {
    const text = area.current?.value ?? "";
    if (text.trim() && (await command.run("edit", { messageId: item.id, text }))) onDone();
  };
  const text = textOf(item.parts);
  return (
    <div class="cn-editor">
      <textarea
        ref={area}
        aria-label={t("editMessage")}
        dir="auto"
        rows={Math.min(12, text.split("\n").length + 1)}
        onKeyDown={(event) => {
          if (event.key === "Escape") {
            event.stopPropagation();
            onDone();
          }
        }}
      >
        {text}
      </textarea>
      <div class="cn-actions">
        <button type="button" class="cn-button" onClick={onDone}>
          {t("cancel")}
        </button>
        <button type="button" class="cn-button cn-primary" disabled={command.isBusy} onClick={() => void save()}>
          {t("saveAndSend")}
        </button>
      </div>
      <Note of={command} />
    </div>
  );
}

const LONG = 60;

/** One message. It is drawn again only when it, or what is said about it, has changed. */
export function Message({ id }: { id: string }): VNode | null {
  const { store, connection } = useStore(id);
  const [isEditing, setEditing] = useState(false);
  const item = store.entries.get(id);
  const isOpen = store.state.streamingId === id && connection.phase !== "gone" && connection.phase !== "readonly";
  const article = useRef<HTMLElement>(null);
  useEffect(() => {
    if (isOpen) return undefined;
    // In a long talk what is out of sight is not painted, once its size is known: nothing moves by that.
    const timer = setTimeout(() => store.order.length > LONG && article.current?.setAttribute("data-rest", ""), 1000);
    return () => {
      clearTimeout(timer);
      article.current?.removeAttribute("data-rest");
    };
  }, [isOpen]);
  if (!item) return null;
  const isLast = store.order.at(-1) === id;
  const isRunning = (isOpen || (isLast && store.isRunning)) && connection.isOpen;
  const role = item.role === "user" ? t("you") : item.role === "assistant" ? t("assistant") : t("system");
  const sources = item.parts.filter((part) => part?.type === "source-url" || part?.type === "source-document");
  return (
    <article ref={article} class="cn-message" data-message-id={id} data-role={item.role} aria-label={role} tabIndex={-1} aria-busy={isOpen ? "true" : undefined}>
      {isEditing ? (
        <Editor item={item} onDone={() => setEditing(false)} />
      ) : (
        <div class="cn-body">
          {item.parts.map((part, at) => part && <PartView key={at} item={item} part={part} at={at} isOpen={isOpen && at === item.parts.length - 1} isRunning={isRunning} />)}
          <Sources parts={sources} />
        </div>
      )}
      {isLast && store.state.unsaved && <span class="cn-badge">{t("notSaved")}</span>}
      <Toolbar item={item} isHidden={isOpen || isEditing || (isRunning && store.state.isRecovering === true)} onEdit={() => setEditing(true)} />
    </article>
  );
}
