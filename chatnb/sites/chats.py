"""`chatnb chats`: looks at a store without a kernel, and beside one (spec/recovery.md, section 3).

Reading needs no lease, so `list`, `show` and `export` work while a notebook goes on with the chat, and on a store that
can't be written. `delete` takes the lease.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chatnb._copies import write_atomically
from chatnb._copies_names import by_place, exported_tree, renamed, waiting_ids
from chatnb._ids import this_process
from chatnb.errors import StoreMissingError
from chatnb.export import FORMATS, ChatRecord, export_chat
from chatnb.messages import TextPart, ToolPart, UIMessage, as_message
from chatnb.store import ChatRow, NodeRow, Owner, Store, open_store

if TYPE_CHECKING:
    from chatnb._json import JsonValue

_ROLES = {"user": "You", "assistant": "Agent", "system": "System"}
_STATES = {
    "output-available": "done",
    "output-error": "failed",
    "output-denied": "denied",
    "approval-requested": "needs approval",
}


@click.group()
@click.option("--store", "place", metavar="URL", help="The store: a file or a URL. Default: as `Agent(store=None)`.")
@click.pass_context
def chats(ctx: click.Context, place: str | None) -> None:
    """List, show, export and delete the chats of a store."""
    store = open_store(place)
    if not store.exists():
        raise StoreMissingError(
            "There is no store here. Start in the notebook's folder, or name the store with --store or CHATNB_STORE."
        )
    ctx.obj = store
    ctx.call_on_close(store.close)


@chats.command("list")
@click.pass_obj
def list_chats(store: Store) -> None:
    """List all chats, the newest first: id, agent, messages, when it was made."""
    rows = [("CHAT", "AGENT", "MESSAGES", "MADE (UTC)")]
    for row in store.list_chats():
        length = len(_chain(row, store.load_nodes(row.id)))
        rows.append((row.id, row.agent, str(length), f"{row.created_at:%Y-%m-%d %H:%M}"))
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for cells in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())


@chats.command()
@click.argument("chat_id", metavar="CHAT")
@click.pass_obj
def show(store: Store, chat_id: str) -> None:
    """Print the conversation as it is shown now."""
    blocks = [_as_text(message) for message in read_messages(store, chat_id)]
    click.echo("\n\n".join(blocks) if blocks else "No messages yet.")


@chats.command()
@click.argument("chat_id", metavar="CHAT")
@click.option("--format", "form", type=click.Choice(FORMATS), default="md", show_default=True, help="What to write.")
@click.option("--output", "-o", "path", type=click.Path(dir_okay=False), help="A file; default: standard output.")
@click.option("--branches", is_flag=True, help="With json: the whole message tree.")
@click.pass_obj
def export(store: Store, chat_id: str, form: str, path: str | None, branches: bool) -> None:
    """Write a conversation as Markdown, html, JSON or a notebook."""
    text = export_chat(read_record(store, chat_id, branches=branches), form)
    if path is None:
        click.echo(text, nl=False)
    else:
        write_atomically(Path(path), text)


@chats.command()
@click.argument("chat_id", metavar="CHAT")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def delete(store: Store, chat_id: str, yes: bool) -> None:
    """Delete a chat with all its branches. This can't be undone."""
    find(store, chat_id)
    if not yes:
        click.confirm(f"Delete {chat_id} with all its branches?", abort=True)
    me = this_process()
    store.delete_chat(chat_id, owner=Owner(host=me.host, pid=me.pid, start=me.start, label="chatnb chats delete"))
    click.echo(f"Deleted {chat_id}.")


def find(store: Store, chat_id: str) -> ChatRow:
    """The row of a chat.

    Raises:
        ClickException: The store has no such chat.
    """
    row = store.find_chat(chat_id)
    if row is None:
        raise click.ClickException(f"The store has no chat {chat_id!r}; `chatnb chats list` lists what it has.")
    return row


def read_messages(store: Store, chat_id: str) -> list[UIMessage]:
    """The history of a chat, read without its lease.

    Raises:
        ClickException: The store has no such chat.
    """
    row = find(store, chat_id)
    chain = _chain(row, store.load_nodes(chat_id))
    wires = store.load_messages(chat_id, chain)
    return [UIMessage.from_wire(_as_object(wires[node_id])) for node_id in chain if node_id in wires]


def read_record(store: Store, chat_id: str, *, branches: bool) -> ChatRecord:
    """A chat as it is exported, read without its lease.

    Raises:
        ClickException: The store has no such chat.
    """
    row = find(store, chat_id)
    nodes = store.load_nodes(chat_id)
    messages = read_messages(store, chat_id)
    tree: JsonValue = None
    if branches:
        wires = store.load_messages(chat_id, [node.node_id for node in nodes])
        everything = [as_message(_as_object(wires[node.node_id])) for node in nodes if node.node_id in wires]
        names = by_place(waiting_ids([m for m in everything if m.role == "assistant"]))
        tree = exported_tree(
            {
                "head": row.head,
                "nodes": [
                    {
                        "id": node.node_id,
                        "parent": node.parent,
                        "shownChild": node.shown_child,
                        "message": _as_object(wires[node.node_id]),
                    }
                    for node in nodes
                    if node.node_id in wires
                ],
            },
            names,
        )
    else:
        names = by_place(waiting_ids(messages))
    return ChatRecord(
        chat_id=chat_id,
        agent=row.agent,
        messages=tuple(renamed(message, names) for message in messages),
        head=tree["head"] if tree is not None else None,
        tree=tree["nodes"] if tree is not None else None,
        usage=row.usage,
    )


def _chain(row: ChatRow, nodes: list[NodeRow]) -> list[str]:
    parents = {node.node_id: node.parent for node in nodes}
    chain: list[str] = []
    node_id = row.head
    while node_id is not None and node_id in parents:
        chain.append(node_id)
        node_id = parents[node_id]
    return chain[::-1]


def _as_object(wire: JsonValue) -> dict[str, JsonValue]:
    return dict(wire) if isinstance(wire, dict) else {}


def _as_text(message: UIMessage) -> str:
    return "\n".join([f"## {_ROLES.get(message.role, message.role)}", "", *_lines(message)])


def _lines(message: UIMessage) -> Iterator[str]:
    for part in message.parts:
        if isinstance(part, TextPart):
            yield part.text
        elif isinstance(part, ToolPart):
            yield f"[{part.tool_name}: {_STATES.get(part.state, 'not finished')}]"
