"""What a model gets of a result, and what a view shows (spec/actions.md, section 9).

`digest_result` does the costly part on the thread where the handler ran; `compose_output` adds the object's name and
cuts, on the runtime.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from typing import Any

from .._json import JsonValue, dumps
from .definition import Action
from .environment import CallEnvironment, ChildRun, Presented
from .images import Images, replace_drawn, take_images
from .output import check_output

_log = logging.getLogger("chatnb")

_NO_TEXT = object()
_MAX_ITEMS = 2_000_000
# Below what a message may nest (256), since a result stands some levels deep in its chunk.
_MAX_LEVELS = 200
# Python writes no longer integer as text: 4,300 digits.
_MAX_BITS = 14_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """A validated result, and what there is to say about it.

    Attributes:
        value: The validated result; without an output schema the very object.
        images: What it holds for the model.
        json: The model's JSON, or a marker when `presented` says it.
        presented: What is said of a result that is not plain JSON.
        text: The JSON as text, when it is not a text itself.
        child: The result stands for a child chat's run; nothing else is set.
    """

    value: Any = None
    images: Images = field(default_factory=Images)
    json: JsonValue = None
    presented: Presented | None = None
    text: str = ""
    child: ChildRun | None = None


def digest_result(action: Action, value: object, environment: CallEnvironment) -> Digest:
    """Check a result against the output contract and describe it.

    Raises:
        ActionOutputContractError: It does not fit a strict schema.
        StopTurn: A validator of the schema raised it.
    """
    child = environment.children.watch(value) if environment.children is not None else None
    if child is not None:
        return Digest(child=child)
    rest, images = take_images(value)
    checked = check_output(action, rest)
    said = own_words(action, checked, _NO_TEXT)
    if said is not _NO_TEXT:
        return Digest(
            value=checked, images=images, json=said, text=_text(said), presented=_bundle_of(checked, environment)
        )
    if images.items or images.notes:
        return _digest_drawn(checked, images, environment)
    if is_json(checked):
        return Digest(value=checked, images=images, json=checked, text=_text(checked))
    presented = present(checked, environment)
    return Digest(value=checked, images=images, json=_NO_TEXT, presented=presented)


def compose_output(action: Action, digest: Digest, name: str | None) -> JsonValue:
    """Return the part's output: exactly what the model gets.

    Args:
        action: The action.
        digest: Its result.
        name: The result's name in `chat.objects`, or None.
    """
    output, text = digest.json, digest.text
    if output is _NO_TEXT:
        assert digest.presented is not None
        output = describe(digest.presented, name)
        text = _text(output)
    cut = truncate(text, action.options.max_result_chars, name)
    if digest.images.notes:
        return "\n".join(part for part in (cut, *digest.images.notes) if part)
    return output if cut is text else cut


def describe(presented: Presented, name: str | None) -> JsonValue:
    """Return the JSON that stands for an object."""
    made: dict[str, JsonValue] = {"object": name} if name is not None else {}
    made |= {"type": presented.type, "summary": presented.summary}
    if presented.preview is not None:
        made["preview"] = presented.preview
    return made


def truncate(text: str, limit: int, name: str | None) -> str:
    """Return the text, cut to the limit with a note; the very object when it fits."""
    if len(text) <= limit:
        return text
    where = f"; object {name}" if name is not None else ""
    kept = limit - len(f"[truncated: {limit} of {len(text)} characters{where}]")
    return f"{text[:kept]}[truncated: {kept} of {len(text)} characters{where}]"


def is_json(value: object) -> bool:
    """Tell whether a value is plain JSON by exact type, without a copy: what is too deep or too large is an object."""
    level = [value]
    seen = 0
    for _ in range(_MAX_LEVELS):
        deeper: list[object] = []
        for item in level:
            kind = type(item)
            if kind is dict:
                assert isinstance(item, dict)
                if not all(type(key) is str for key in item):
                    return False
                deeper.extend(item.values())
            elif kind is list:
                assert isinstance(item, list)
                deeper.extend(item)
            elif not _is_json_leaf(item):
                return False
        seen += len(level)
        if seen > _MAX_ITEMS:
            return False
        if not deeper:
            return True
        level = deeper
    return False


def _is_json_leaf(item: object) -> bool:
    if type(item) is float:
        return math.isfinite(item)
    if type(item) is int:
        return item.bit_length() <= _MAX_BITS
    return type(item) in (str, bool, type(None))


def present(value: object, environment: CallEnvironment) -> Presented:
    """Describe an object: by the chat's port, or plainly where there is none."""
    if environment.objects is not None:
        return environment.objects.present(value)
    return Presented(type=type(value).__name__, summary=plain_summary(value))


def plain_summary(value: object) -> str:
    """Describe frames, series and arrays by type, shape, columns and first rows; anything else by its repr."""
    kind = type(value).__name__
    try:
        shape = getattr(value, "shape", None)
        if shape is None:
            return repr(value)[:2000]
        said = [f"{kind}, shape {tuple(shape)}"]
        dtypes = getattr(value, "dtypes", getattr(value, "dtype", None))
        columns = getattr(value, "columns", None)
        if columns is not None and dtypes is not None:
            said.append(", ".join(f"{c}: {d}" for c, d in zip(list(columns)[:30], list(dtypes)[:30], strict=False)))
        elif dtypes is not None:
            said.append(f"dtype {dtypes}")
        head = getattr(value, "head", None)
        first: Any = head(5) if callable(head) else value[:5]  # type: ignore[index]
        said.append(str(first))
        return "\n".join(said)[:2000]
    except Exception:  # noqa: BLE001 - a foreign object may fail in any way; its type is always known
        return kind


def own_words(action: Action, value: object, otherwise: object) -> JsonValue:
    """Return what the action's `to_model_output` makes of a result; where there is none, or it fails, `otherwise`."""
    function = action.options.to_model_output
    if function is None:
        return otherwise
    try:
        said = function(value)
        if is_json(said):
            return said
        _log.warning("action %s: to_model_output gave no text or JSON", action.name)
    except Exception as error:  # noqa: BLE001 - the user's function; the call itself has succeeded
        _log.warning("action %s: to_model_output failed (%s)", action.name, type(error).__name__)
    return otherwise


def _digest_drawn(value: object, images: Images, environment: CallEnvironment) -> Digest:
    shown = replace_drawn(value)
    presented = _bundle_of(value, environment)
    if shown == "[image]" and environment.objects is None:
        return Digest(value=value, images=images, json="", text="", presented=presented)
    if shown != "[image]" and is_json(shown):
        return Digest(value=value, images=images, json=shown, text=_text(shown), presented=presented)
    return Digest(value=value, images=images, json=_NO_TEXT, presented=present(value, environment))


def _bundle_of(value: object, environment: CallEnvironment) -> Presented | None:
    return None if environment.objects is None or is_json(value) else environment.objects.present(value)


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else dumps(value)
