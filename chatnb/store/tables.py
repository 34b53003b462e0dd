"""The tables of the store (spec/recovery.md, section 2). The migrations spell them out again; a test compares the two.

Rows that have no number of their own get `n`, which gives their order: times are never used for ordering.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.engine import Dialect

from .._json import JsonValue, dumps, loads
from ..errors import StoreCorruptError


def encode(value: JsonValue) -> str:
    """Return compact JSON that every database can hold as text.

    A lone surrogate has no UTF-8; such a text is written with escapes, which read back as the same value.
    """
    text = dumps(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text


class JsonText(TypeDecorator[JsonValue]):
    """JSON as compact text. None is NULL."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: JsonValue, dialect: Dialect) -> str | None:
        """Write the text."""
        return None if value is None else encode(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> JsonValue:
        """Read the text."""
        if value is None:
            return None
        try:
            return loads(value)
        except ValueError:
            raise StoreCorruptError(
                "A row of the chat store holds unreadable JSON. Nothing was changed; restore the file from a copy."
            ) from None


class UtcTime(TypeDecorator[datetime]):
    """An aware time as ISO text in UTC, always with microseconds, so that texts compare like times."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        """Write the text."""
        return None if value is None else value.astimezone(UTC).isoformat(timespec="microseconds")

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Read the text."""
        return None if value is None else datetime.fromisoformat(value)


class FreeText(TypeDecorator[str]):
    """Text from models and people. What no database holds (lone surrogates, NUL) is replaced."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Write the text."""
        if value is None or (value.isascii() and "\0" not in value):
            return value
        return value.encode("utf-8", "replace").decode().replace("\0", "\ufffd")

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        """Read the text."""
        return None if value is None else str(value)


metadata = MetaData()


def _number() -> Column[int]:
    return Column("n", Integer, primary_key=True, autoincrement=True)


def _chat_key(*, primary: bool = False) -> Column[str]:
    return Column("chat_id", String, ForeignKey("chats.id", ondelete="CASCADE"), nullable=False, primary_key=primary)


chats = Table(
    "chats",
    metadata,
    _number(),
    Column("id", String, nullable=False, unique=True),
    Column("agent", FreeText, nullable=False),
    Column("identity", FreeText),
    Column("created_at", UtcTime, nullable=False),
    Column("head", String),
    Column("generation", Integer, nullable=False),
    Column("next_number", Integer, nullable=False),
    Column("chat_started", Boolean, nullable=False),
    Column("redo", JsonText),
    Column("usage", JsonText),
    Column("body", JsonText),
    Column("client_tools", JsonText),
    Column("terminal", JsonText),
    Column("recovering", Boolean, nullable=False),
    Column("progress", Integer, nullable=False),
    Column("owner_token", String),
    Column("owner_host", String),
    Column("owner_pid", Integer),
    Column("owner_start", String),
    Column("owner_kernel", String),
    Column("owner_label", FreeText),
    Column("heartbeat_at", UtcTime),
    Column("heartbeat_seq", Integer, nullable=False),
)

contents = Table(
    "contents",
    metadata,
    Column("content_id", String, primary_key=True),
    Column("payload", Text, nullable=False),
    Column("bytes", Integer, nullable=False),
)

messages = Table(
    "messages",
    metadata,
    _chat_key(primary=True),
    Column("node_id", String, primary_key=True),
    Column("message_id", String, nullable=False),
    Column("parent", String),
    Column("ordinal", Integer, nullable=False),
    Column("shown_child", String),
    Column("content_id", String, ForeignKey("contents.content_id"), nullable=False),
    Column("role", String, nullable=False),
    Column("turn_id", String),
    Column("kernel_id", String),
    UniqueConstraint("chat_id", "ordinal", name="messages_ordinal"),
    Index("messages_content", "content_id"),
)

inputs = Table(
    "inputs",
    metadata,
    Column("id", String, primary_key=True),
    _chat_key(),
    Column("arrival", Integer, nullable=False),
    Column("kind", String, nullable=False),
    Column("payload", JsonText),
    Column("body", JsonText),
    Column("client_data", JsonText),
    Column("client_tools", JsonText),
    Column("generation", Integer, nullable=False),
    Column("state", String, nullable=False),
    UniqueConstraint("chat_id", "arrival", name="inputs_arrival"),
    Index("inputs_state", "chat_id", "state"),
)

turns = Table(
    "turns",
    metadata,
    Column("id", String, primary_key=True),
    _chat_key(),
    Column("number", Integer, nullable=False),
    Column("trigger", String, nullable=False),
    Column("state", String, nullable=False),
    Column("leaf_id", String),
    Column("assistant_id", String),
    Column("input_id", String),
    Column("attempt", Integer, nullable=False),
    Column("stop_requested", Boolean, nullable=False),
    Column("stash", JsonText),
    Column("model_stash", JsonText),
    Column("body", JsonText),
    Column("client_data", JsonText),
    Column("client_tools", JsonText),
    Column("hooks_done", Boolean, nullable=False),
    Column("finish_reason", String),
    Column("error", JsonText),
    Column("usage", JsonText),
    Column("started_at", UtcTime),
    Column("ended_at", UtcTime),
    Index("turns_number", "chat_id", "number"),
    Index("turns_state", "chat_id", "state"),
    Index("turns_unhooked", "chat_id", "hooks_done"),
)

injected = Table(
    "injected",
    metadata,
    _chat_key(primary=True),
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("messages", JsonText),
    Column("used_by", String),
)

overlays = Table(
    "overlays",
    metadata,
    _chat_key(primary=True),
    Column("node_id", String, primary_key=True),
    Column("step", Integer, primary_key=True, autoincrement=False),
    Column("position", Integer, nullable=False),
    Column("summary", FreeText, nullable=False),
    Column("message_id", String, nullable=False),
)

chunks = Table(
    "chunks",
    metadata,
    Column("turn_id", String, ForeignKey("turns.id", ondelete="CASCADE"), primary_key=True),
    Column("first_seq", Integer, primary_key=True, autoincrement=False),
    Column("last_seq", Integer, nullable=False),
    Column("payload", Text, nullable=False),
    Column("bytes", Integer, nullable=False),
)

calls = Table(
    "calls",
    metadata,
    _number(),
    Column("id", String, nullable=False, unique=True),
    Column("site", String, nullable=False),
    Column("chat_id", String),
    Column("turn_id", String),
    Column("message_id", String),
    Column("step", Integer),
    Column("tool_call_id", String),
    Column("attempt", Integer, nullable=False),
    Column("action", String, nullable=False),
    Column("hash", String, nullable=False),
    Column("state", String, nullable=False),
    Column("effect", String, nullable=False),
    Column("model_text", FreeText),
    Column("output", JsonText),
    Column("error", JsonText),
    Column("entered_at", UtcTime),
    Column("ended_at", UtcTime),
    Column("reused_by", String),
    # NULLs are distinct: only calls of a message are unique.
    UniqueConstraint("message_id", "step", "tool_call_id", name="calls_place"),
    Index("calls_chat", "chat_id", "turn_id"),
)

grants = Table(
    "grants",
    metadata,
    _number(),
    Column("id", String, nullable=False, unique=True),
    Column("site", String, nullable=False),
    Column("chat_id", String),
    Column("turn_id", String),
    Column("message_id", String),
    Column("tool_call_id", String),
    Column("identity", FreeText),
    Column("action", String, nullable=False),
    Column("hash", String, nullable=False),
    Column("arguments", JsonText),
    Column("asked_at", UtcTime, nullable=False),
    Column("expires_at", UtcTime),
    Column("state", String, nullable=False),
    Column("decided_at", UtcTime),
    Column("decided_by", FreeText),
    Column("reason", FreeText),
    Index("grants_state", "chat_id", "state"),
)

audit = Table(
    "audit",
    metadata,
    _number(),
    Column("id", String, nullable=False, unique=True),
    Column("at", UtcTime, nullable=False),
    Column("action", String, nullable=False),
    Column("site", String, nullable=False),
    Column("actor_kind", String, nullable=False),
    Column("actor_id", FreeText),
    Column("chat_id", String),
    Column("turn_id", String),
    Column("tool_call_id", String),
    Column("hash", String),
    Column("effect_class", String, nullable=False),
    Column("effect", String, nullable=False),
    Column("status", String, nullable=False),
    Column("error_code", String),
    Column("duration_ms", Integer),
    Column("summary", FreeText),
    Column("target", FreeText),
    Column("input", JsonText),
    Index("audit_chat", "chat_id"),
)

incidents = Table(
    "incidents",
    metadata,
    _number(),
    Column("id", String, nullable=False, unique=True),
    Column("turn_id", String, ForeignKey("turns.id", ondelete="CASCADE"), nullable=False, unique=True),
    Column("status", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("cause", FreeText, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("progress_at_open", Integer, nullable=False),
    Column("progress_seen", Integer, nullable=False),
    Column("quiet_seconds", Float, nullable=False),
    Column("reason", FreeText),
    Column("created_at", UtcTime),
    Column("changed_at", UtcTime, nullable=False),
)

changes = Table(
    "changes",
    metadata,
    _number(),
    Column("payload", JsonText),
    Column("at", UtcTime, nullable=False),
    # Numbers of pruned rows must not come again: observers remember the last one that they saw.
    sqlite_autoincrement=True,
)
