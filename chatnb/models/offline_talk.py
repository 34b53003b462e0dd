"""Small talk: what the offline model answers to words that are about itself or the talk, and not about facts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from chatnb.models import offline_texts as texts
from chatnb.models.offline_words import choices, parameters
from chatnb.models.port import ActionSpec

TalkKind = Literal["greeting", "about", "thanks", "undo", "leave", "approve"]

_MOST_VALUES = 6
_TAIL = r"(?: (?:it|that|this|them|please|now|again|there|all|everyone|then|so much|a lot|very much))*"
# A whole message, in lower case, without marks at its ends. The first that fits counts.
_KINDS: Mapping[TalkKind, str] = {
    "greeting": (
        rf"(?:hi|hello|hey|hallo|hola|bonjour|ciao|moin|servus|greetings|你好){_TAIL}"
        rf"|good (?:morning|day|afternoon|evening){_TAIL}"
        r"|(?:(?:hi|hello|hey) )?(?:how are you|how is it going|how's it going|what's up)(?: doing)?(?: today)?"
    ),
    "thanks": (
        rf"(?:ok |okay |great )?(?:thanks|thank you|thx|merci|danke|gracias){_TAIL}"
        r"|great|nice|cool|perfect|wonderful|well done|good job|(?:good)?bye|see you"
    ),
    "undo": (
        r"(?:please )?(?:undo|redo|revert|roll ?back|take (?:it|that|this) back)"
        r"(?: (?:it|that|this|please|the last .*))*"
    ),
    "leave": (
        rf"(?:no|nope|cancel|never ?mind|stop|forget|leave|abort|skip|nothing|don't)(?: thanks| thank you)?{_TAIL}"
    ),
    "approve": (
        rf"(?:(?:yes|yep|yeah|ok|okay|sure) ?)?(?:approved?|confirm(?:ed)?|go|go ahead|do|please do|allow)?{_TAIL}"
    ),
    "about": (
        r".*\b(?:what|how) (?:can|could|do|should) (?:you|i) (?:do|use|ask|say|type|try|help|work)\b.*"
        r"|.*\b(?:who|what) are you\b.*|.*\bare you (?:an?|the|claude|chatgpt|real|human|there|online|offline)\b.*"
        r"|.*\b(?:which|what) (?:\w+ )?model\b.*|.*\b(?:api )?keys?\b.*|.*\bclaude\b.*"
        r"|(?:help|commands?|examples?|options|menu|info|about|what is this|what now)(?: me)?(?: please)?"
    ),
}
_PATTERNS: Mapping[TalkKind, re.Pattern[str]] = {kind: re.compile(text) for kind, text in _KINDS.items()}


def kind_of_talk(text: str) -> TalkKind | None:
    """What kind of small talk a whole message is, or None."""
    plain = " ".join(text.lower().replace("’", "'").replace(",", " ").split()).strip(" .!?;:¿¡")
    if not plain or len(plain) > 80:
        return None
    return next((kind for kind, pattern in _PATTERNS.items() if pattern.fullmatch(plain)), None)


def small_talk(kind: TalkKind, specs: Sequence[ActionSpec], *, is_introduced: bool) -> str:
    """The answer to small talk: what it is, what it can do, and no pretence.

    Args:
        kind: What was said.
        specs: The agent's actions.
        is_introduced: Whether the chat knows already who answers.
    """
    return _ANSWERS[kind](specs, is_introduced)


def _who(is_introduced: bool) -> str:
    return f"I'm only the {texts.OWN_NAME}." if is_introduced else texts.INTRODUCTION


def _greet(specs: Sequence[ActionSpec], is_introduced: bool) -> str:
    return f"Hello. {_about(specs, is_introduced)}"


def _about(specs: Sequence[ActionSpec], is_introduced: bool) -> str:
    text = f"{_who(is_introduced)} I can't know facts, and I won't guess."
    if specs:
        lines = [_line(spec) for spec in specs[: texts.MAX_ACTIONS]]
        more = len(specs) - texts.MAX_ACTIONS
        text += "\n\nWhat I can do is call your actions when you name them:\n\n" + "\n".join(lines)
        text += f"\n- and {more} more" if more > 0 else ""
    return f"{text}\n\n{texts.SAMPLES_LINE}\n\n{texts.PLUG_IN}"


def _thank(specs: Sequence[ActionSpec], is_introduced: bool) -> str:
    names = ", ".join(f"`{spec.name}`" for spec in specs[: texts.MAX_ACTIONS])
    able = f" I can't know facts, but I can call {names}." if names else " I can't know facts."
    return f"You're welcome. {_who(is_introduced)}{able} {texts.PLUG_IN}"


def _undo(_: Sequence[ActionSpec], is_introduced: bool) -> str:
    return (
        f"{_who(is_introduced)} I can't take back what was said or done. **Undo** in the panel, or `chat.undo()`, "
        "takes back your last message with its answer, and redo brings it back. What an action has done stays done."
    )


def _leave(_: Sequence[ActionSpec], is_introduced: bool) -> str:
    return "All right, I leave it." if is_introduced else f"{texts.INTRODUCTION}\n\nAll right, I leave it."


def _approve(_: Sequence[ActionSpec], is_introduced: bool) -> str:
    return (
        f"{_who(is_introduced)} I can't approve anything: a person does, with **Approve** in the card or "
        "`chat.approve()`. A message that is sent instead closes what waited; ask for it again, then approve."
    )


_ANSWERS: Mapping[TalkKind, Callable[[Sequence[ActionSpec], bool], str]] = {
    "greeting": _greet,
    "about": _about,
    "thanks": _thank,
    "undo": _undo,
    "leave": _leave,
    "approve": _approve,
}


def _line(spec: ActionSpec) -> str:
    """An action with what it needs, so that one can see how to ask for it."""
    required = spec.input_schema.get("required") or ()
    needed = [_needed(name, schema) for name, schema in parameters(spec).items() if name in required]
    line = texts.action_line(spec)
    if not needed:
        return line
    return f"{line}{'' if line[-1] in '.!?' else '.'} It needs {', '.join(needed)}."


def _needed(name: str, schema: Mapping[str, Any]) -> str:
    values = choices(schema)
    if not values or len(values) > _MOST_VALUES:
        return f"`{name}`"
    return f"`{name}` ({', '.join(str(value) for value in values)})"
