"""How a dispatched call ended, for whichever site it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from .._json import JsonValue
from .failures import CallFailure
from .ports import Effect
from .prepare import PreparedCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The one result that every dispatched call gets.

    Attributes:
        status: `"denied"`: by authorize, or because a person was not asked.
        action: The action's name.
        prepared: The call; None when its input was invalid or its name unknown.
        value: The validated result of a success: the object itself.
        output: What a model gets of a success.
        failure: Why it did not succeed.
        effect: Whether a write entered its handler.
        object: The result's name in `chat.objects`.
        images: Content items for a model that takes images.
        image_field: The field `_agent_images` of the result as JSON; None where there was none.
        image_notes: One line for each image of the result, dropped ones too.
        replayed: The outcome was recorded by an earlier attempt; nothing ran.
        ends_turn: No further step follows: a successful `ends_turn` call, or a `StopTurn`.
        outputs: What the call has shown: text, figures, the result's bundle.
        row_id: Its row in the calls ledger.
        is_detached: Its handler was left running.
    """

    status: Literal["success", "error", "denied"]
    action: str
    prepared: PreparedCall | None = None
    value: Any = None
    output: JsonValue = None
    failure: CallFailure | None = None
    effect: Effect = "none"
    object: str | None = None
    images: tuple[JsonValue, ...] = ()
    image_field: JsonValue = None
    image_notes: tuple[str, ...] = ()
    replayed: bool = False
    ends_turn: bool = False
    outputs: tuple[JsonValue, ...] = ()
    duration_ms: int = 0
    row_id: str | None = None
    is_detached: bool = False

    @property
    def is_success(self) -> bool:
        """The call succeeded."""
        return self.status == "success"

    @property
    def hash(self) -> str | None:
        """The hash of the call."""
        return None if self.prepared is None else self.prepared.hash
