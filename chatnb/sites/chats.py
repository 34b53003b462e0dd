"""`chatnb chats`: looks at a store without a kernel, and beside one (spec/recovery.md, section 3).

Reading needs no lease, so `list`, `show` and `export` work while a notebook goes on with the chat, and on a store that
can't be written. `delete` takes the lease.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from chatnb._ids import this_process
from chatnb.errors import StoreMissingError
from chatnb.messages import TextPart, ToolPart, UIMessage
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
    """List, show and delete the chats of a store."""
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
