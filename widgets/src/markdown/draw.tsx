import { Component, Fragment, h } from "preact";
import { AppContext } from "../app";
import type { App } from "../app";
import type { ComponentChild, VNode } from "preact";
import type { Token, Tokens } from "marked";
import { Code } from "../components/Code";
import { Picture } from "../components/Picture";
import { Formula } from "../components/Formula";
import { Icon } from "../components/Icon";
import { visible } from "../sanitize";
import { t } from "../strings";
import type { ExtraModules } from "../extras";
import type { Draw } from "../extras/footnotes";
import { lex } from "./lexer";
import { TextStream } from "./stream";
import type { Block } from "./stream";

const ENTITY = /&(?:#\d{1,7}|#x[\da-f]{1,6}|[a-z][a-z\d]{1,31});/gi;
const entities = new Map<string, string>();

/** The characters that a text of marked stands for: entities are decoded, direction overrides shown. */
function plain(text: string): string {
  const unknown = new Set(text.match(ENTITY)?.filter((entity) => !entities.has(entity)));
  if (unknown.size > 0) {
    // All at once: a document for each takes long.
    const { body } = new DOMParser().parseFromString(`<i>${[...unknown].join("</i><i>")}</i>`, "text/html");
    [...unknown].forEach((entity, at) => entities.set(entity, body.children[at]?.textContent ?? entity));
  }
  return visible(text.replace(ENTITY, (entity) => entities.get(entity) as string));
}

const LINK = /^(?:https?:|mailto:|#)/i;
const NOTE = /^ {0,3}\[\^[^\]\s]+\]:/m;

function inline(tokens: Token[] | undefined): ComponentChild[] {
  return (tokens ?? []).map(inlineToken);
}

function inlineToken(token: Token): ComponentChild {
  switch (token.type) {
    case "text":
      return "tokens" in token && token.tokens ? inline(token.tokens) : plain(token.text as string);
    case "escape":
      return visible(token.text as string);
    case "strong":
      return <strong>{inline(token.tokens)}</strong>;
    case "em":
      return <em>{inline(token.tokens)}</em>;
    case "del":
      return <del>{inline(token.tokens)}</del>;
    case "codespan":
      return <code dir="ltr">{visible(token.text as string)}</code>;
    case "br":
      return <br />;
    case "math":
      return <Formula tex={token.text as string} display={token.display as boolean} />;
    case "image":
      return <Picture url={token.href as string} alt={plain(token.text as string)} />;
    case "link": {
      const href = String(token.href);
      // A bare address is a link once it is whole.
      if (!LINK.test(href) || (isGrowing && !/^[<[]/.test(token.raw))) return <span>{inline(token.tokens)}</span>;
      return (
        <a href={href} target="_blank" rel="noopener noreferrer">
          {inline(token.tokens)}
        </a>
      );
    }
    case "checkbox":
      return null;
    default:
      return special(token) ?? visible(token.raw);
  }
}

/** What an extra has put among the tokens; no token that comes of a text has a function. */
const special = (token: Token): VNode | undefined => (token as { draw?: Draw }).draw?.(h, (tokens) => tokens.map(block), t);

function listItem(item: Tokens.ListItem): VNode {
  const body = item.tokens.map((token) =>
    token.type === "text" && !item.loose ? <Fragment>{inline((token as Tokens.Text).tokens ?? [token])}</Fragment> : block(token),
  );
  if (!item.task) return <li dir="auto">{body}</li>;
  return (
    <li dir="auto" class="cn-task">
      <span class="cn-check" role="img" aria-label={t(item.checked ? "taskDone" : "taskOpen")} data-checked={item.checked ? "" : undefined}>
        {item.checked && <Icon name="check" />}
      </span>
      <div>{body}</div>
    </li>
  );
}

const GROUP = 40;

/** Some of many items or rows: drawn again only when one of them has changed. */
class Group extends Component<{ raw: string; mark: string; isOpen: boolean; make: () => ComponentChild }> {
  override shouldComponentUpdate(next: { raw: string; mark: string; isOpen: boolean }): boolean {
    return next.raw !== this.props.raw || next.mark !== this.props.mark || next.isOpen !== this.props.isOpen;
  }

  render(): ComponentChild {
    return during(this.props, this.props.make);
  }
}

function grouped<T>(all: T[], raw: (one: T) => string, draw: (one: T) => VNode): VNode[] {
  const groups: VNode[] = [];
  for (let at = 0; at < all.length; at += GROUP) {
    const some = all.slice(at, at + GROUP);
    groups.push(<Group key={at} raw={some.map(raw).join("\n")} mark={mark} isOpen={isGrowing && at + GROUP >= all.length} make={() => some.map(draw)} />);
  }
  return groups;
}

function table(token: Tokens.Table): VNode {
  // A cell with words is not squeezed by many figures beside it.
  const cell = (tag: "th" | "td", { text, tokens, align }: Tokens.TableCell): VNode =>
    h(tag, { dir: "auto", style: { textAlign: align ?? "", minWidth: text.length > 24 ? "10em" : "" } }, inline(tokens));
  return (
    <div class="cn-wide" dir="auto" role="group" tabIndex={0} aria-label={t("table")}>
      <table>
        <thead>
          <tr>{token.header.map((head) => cell("th", head))}</tr>
        </thead>
        <tbody>
          {grouped(
            token.rows,
            (row) => row.map(({ text, align }) => align + text).join("|"),
            (row) => (
              <tr>{row.map((data) => cell("td", data))}</tr>
            ),
          )}
        </tbody>
      </table>
    </div>
  );
}

/** While the block that grows is drawn: code in it, in lists too, is not complete. */
let isGrowing = false;
/** What is known besides the text of the block that is drawn: references, footnotes. */
let mark = "";

function during<T>(of: { isOpen: boolean; mark: string }, make: () => T): T {
  isGrowing = of.isOpen;
  mark = of.mark;
  const made = make();
  isGrowing = false;
  return made;
}

function block(token: Token): VNode | null {
  switch (token.type) {
    case "paragraph":
    case "text":
      return <p dir="auto">{inline("tokens" in token && token.tokens ? token.tokens : [token])}</p>;
    case "heading":
      // The panel's own title is a heading of level two; what is written below it comes after.
      return h(`h${Math.min(6, (token.depth as number) + 2)}`, { dir: "auto", "data-depth": token.depth as number }, inline(token.tokens)) as VNode;
    case "code":
      return <Code text={token.text as string} lang={(token.lang as string | undefined) ?? ""} isDone={!isGrowing} />;
    case "blockquote":
      return <blockquote dir="auto">{(token.tokens ?? []).map(block)}</blockquote>;
    case "list": {
      const list = token as Tokens.List;
      const items = grouped(list.items, ({ raw, loose }) => (loose ? "+" : "-") + raw, listItem);
      return list.ordered ? <ol dir="auto" start={list.start === "" ? 1 : list.start}>{items}</ol> : <ul dir="auto">{items}</ul>;
    }
    case "table":
      return table(token as Tokens.Table);
    case "hr":
      return <hr />;
    case "math":
      return (
        <p>
          <Formula tex={token.text as string} display />
        </p>
      );
    case "space":
    case "def":
      return null;
    default:
      return special(token) ?? <p dir="auto">{visible(token.raw)}</p>;
  }
}

class DrawnBlock extends Component<{ block: Block; isOpen: boolean }> {
  override shouldComponentUpdate(next: { block: Block; isOpen: boolean }): boolean {
    return next.block.raw !== this.props.block.raw || next.isOpen !== this.props.isOpen;
  }

  render({ block: { token, raw }, isOpen }: { block: Block; isOpen: boolean }): VNode | null {
    return during({ isOpen, mark: raw.slice(token.raw.length) }, () => block(token));
  }
}

/** A markdown text, which may still grow. */
export class Markdown extends Component<{ text: string; isDone: boolean }> {
  static override contextType = AppContext;
  private stream = new TextStream();
  private notes: ExtraModules["footnotes"] | null = null;
  private isAsked = false;

  override shouldComponentUpdate(next: { text: string; isDone: boolean }): boolean {
    return next.text !== this.props.text || next.isDone !== this.props.isDone;
  }

  render({ text, isDone }: { text: string; isDone: boolean }): VNode {
    const hasNotes = isDone && NOTE.test(text);
    if (hasNotes && !this.isAsked) {
      this.isAsked = true;
      void (this.context as App).extras.load("footnotes").then((extra) => {
        this.notes = extra;
        if (extra) this.forceUpdate();
      });
    }
    const blocks = hasNotes && this.notes ? this.notes.lex(text, lex) : this.stream.blocks(text, isDone);
    return (
      <div class="cn-md">
        {blocks.map((drawn, at) => (
          <DrawnBlock key={at} block={drawn} isOpen={!isDone && at === blocks.length - 1} />
        ))}
      </div>
    );
  }
}
