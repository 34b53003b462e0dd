"""The refresh event: an action has changed kernel data (spec/actions.md, 8.5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from .._ids import process_mark
from .._json import JsonValue
from .ports import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One outermost call that has changed something.

    Attributes:
        action: The action's name.
        hash: The hash of the call; None for a direct call with arguments that are not plain data.
        site: From where it was called.
        chat_id, turn_id: Where it belongs, or None.
        identity: The id of who called, or None.
        resources: What the call named by `ctx.changed("orders", ...)`.
        object: The result's name in `chat.objects`, or None.
        at: When it ended.
    """

    action: str
    hash: str | None
    site: Site
    at: datetime
    chat_id: str | None = None
    turn_id: str | None = None
    identity: str | None = None
    resources: tuple[str, ...] = ()
    object: str | None = None
    source: Literal["action"] = "action"

    def to_json(self) -> dict[str, JsonValue]:
        """Return the wire form, for views and for other processes."""
        return {
            "source": self.source,
            "action": self.action,
            "hash": self.hash,
            "site": self.site,
            "chatId": self.chat_id,
            "turnId": self.turn_id,
            "identity": self.identity,
            "resources": list(self.resources),
            "object": self.object,
            "at": self.at.isoformat(),
        }

    def to_row(self) -> dict[str, JsonValue]:
        """Return what is stored, for other processes: the wire form, and who has written it."""
        return {**self.to_json(), "process": process_mark()}

    @staticmethod
    def is_of_this_process(row: dict[str, JsonValue]) -> bool:
        """Tell whether this process has written a row; its observers know already."""
        return bool(row.get("process") == process_mark())

    @classmethod
    def from_json(cls, data: dict[str, JsonValue]) -> Change:
        """Read the wire form."""
        return cls(
            action=data["action"],
            hash=data["hash"],
            site=data["site"],
            at=datetime.fromisoformat(data["at"]),
            chat_id=data["chatId"],
            turn_id=data["turnId"],
            identity=data["identity"],
            resources=tuple(data["resources"]),
            object=data["object"],
        )
