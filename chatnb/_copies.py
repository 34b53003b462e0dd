"""Copies of a chat: exports, what is loaded from them, and forks (spec/notebook.md, sections 9 and 10)."""

from __future__ import annotations

import errno
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._copies_names import by_place, exported_tree, loaded_tree, renamed, waiting_ids
from ._ids import check_chat_id, new_chat_id
from .actions.approval import make_grant
from .actions.audit import CallPlace
from .actions.prepare import prepare
from .errors import ActionError, ChatExistsError, ExportError, UnknownMessageError
from .export import FORMATS, ChatRecord, export_chat, parse_json
from .export.redaction import credentials_of, make_redact
from .history import settle_open_calls
from .messages import UIMessage, as_message, is_tool_part
from .store import open_store
from .turns.usage import usage_from_json, usage_to_json

if TYPE_CHECKING:
    from ._composition import Composition
    from .agent import Agent
    from .chat import Chat
    from .kernel.objects import ChatObjects
    from .store import Store
    from .store.port import WriteTx

FORKED = "Not executed: the chat was forked."


def record_of(chat: Chat, *, branches: bool) -> ChatRecord:
    """Return what an export holds of a chat; on the runtime."""
    engine = chat._engine
    messages = engine.shown_messages()
    names = by_place(waiting_ids(engine.tree.all_messages("assistant") if branches else messages))
    tree = exported_tree(engine.tree.to_json(), names) if branches else None
    return ChatRecord(
        chat_id=chat.id,
        agent=chat.agent.name,
        messages=tuple(renamed(message, names) for message in messages),
        head=tree["head"] if tree is not None else None,
        tree=tree["nodes"] if tree is not None else None,
        usage=usage_to_json(engine.total_usage),
        is_unfinished=engine.turn is not None and engine.turn.live.has_shown,
    )


def export(chat: Chat, format: str, path: str | os.PathLike[str] | None, *, branches: bool) -> str:
    """Return a chat as text, and write it to a file if a path is given: whole or not at all.

    Raises:
        ExportError: An unknown format.
        OSError: The file can't be written.
    """
    if format not in FORMATS:
        raise ExportError(f"there is no export format {format!r}; the formats are {', '.join(FORMATS)}")
    record = chat._runtime.call(lambda: record_of(chat, branches=branches))
    redact = make_redact(credentials_of(chat.agent.model))
    text = export_chat(record, format, redact=redact)
    if path is not None:
        write_atomically(Path(path), text)
    return text


def write_atomically(path: Path, text: str) -> None:
    """Write a file by way of a temporary one beside it."""
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "There is no such folder; make it first", str(path.parent))
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def settled_chain(chat: Chat) -> list[UIMessage]:
    """Return a chat's conversation for a copy: without a running turn, and with no call that waits."""
    chain = chat._runtime.call(lambda: chat._engine.tree.messages)
    return [settle_open_calls(message, FORKED) for message in chain]


def fork(chat: Chat, message_id: str | None, id: str | None) -> Chat:
    """Make an independent chat with the chain up to a message.

    Raises:
        UnknownMessageError: No such message on the chain.
        ChatExistsError: The id is taken.
    """
    engine, composition = chat._engine, chat._composition
    chain = settled_chain(chat)
    if message_id is not None:
        index = next((i for i, m in enumerate(chain) if m.id == message_id), None)
        if index is None:
            raise UnknownMessageError(f"this chat has no message {message_id!r} on its chain")
        chain = chain[: index + 1]
    copies = [as_message({**m.to_wire(), "id": engine.new_id("msg")}) for m in chain]

    def make() -> Chat:
        made = new_chat(composition, chat.agent, engine.store, id, kept=chat.objects.fork())
        chat._runtime.call(made._engine.apply_list, copies)
        return made

    return composition.runtime.undisturbed(make)


def new_chat(
    composition: Composition, agent: Agent, store: Store, id: str | None, *, kept: ChatObjects | None = None
) -> Chat:
    """Open a chat that must not exist yet.

    Raises:
        ChatExistsError: It does.
    """
    if id is None:
        id = new_chat_id(agent.name)
    check_chat_id(id)
    if composition.find(store, id) is not None or store.find_chat(id) is not None:
        raise ChatExistsError(f"there is a chat {id!r} already; choose another id")
    return composition.open(agent, store, id, composition.owner, kept=kept)


def load(agent: Agent, composition: Composition, source: str | os.PathLike[str], id: str | None) -> Chat:
    """Make a chat of a JSON export; nothing runs, and what waits goes on waiting.

    Raises:
        ExportFormatError: It is no export, or one of a newer version.
        ChatExistsError: The id is taken.
    """
    text = source if isinstance(source, str) and source.lstrip().startswith("{") else Path(source).read_text("utf-8")
    record = parse_json(text)
    store = open_store(agent._store)

    def make() -> Chat:
        chat = new_chat(composition, agent, store, id)
        composition.runtime.call(_fill, chat, record)
        return chat

    return composition.runtime.undisturbed(make)


def _fill(chat: Chat, record: ChatRecord) -> None:
    engine = chat._engine
    if record.tree is None:
        approvals = {id_: engine.new_id("approval") for id_ in waiting_ids(record.messages)}
        engine.apply_list([renamed(message, approvals) for message in record.messages])
    else:
        engine.apply_edit(loaded_tree(record.tree, record.head, engine.new_id))
    engine.total_usage = usage_from_json(record.usage)
    with engine.write() as tx:
        tx.set_chat(usage=usage_to_json(engine.total_usage))
        for message in engine.tree.messages:
            for part in message.parts:
                if is_tool_part(part) and part.state == "approval-requested" and part.approval is not None:
                    _ask_again(chat, tx, message.id, part)
    engine.pending_changed()


def _ask_again(chat: Chat, tx: WriteTx, message_id: str, part: Any) -> None:
    """Give a loaded, waiting call its grant, so that it can be decided."""
    action = chat.agent.catalog.find(part.tool_name)
    if action is None or chat._engine.store_knows_grant(part.approval.id):
        return
    place = CallPlace(site="agent", chat_id=chat.id, message_id=message_id, tool_call_id=part.tool_call_id)
    try:
        prepared = prepare(action, part.input)
    except ActionError:
        return
    engine = chat._engine
    row = make_grant(prepared, place, new_id=engine.new_id, now=engine.clock.now(), ttl=None)
    tx.add_grant(replace(row, id=part.approval.id))
