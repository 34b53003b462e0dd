"""Validation against an app's own types: metadata, data parts, inputs and outputs of actions (section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from chatnb.messages.json_value import FrozenDict, FrozenList, JsonObject, JsonValue, freeze
from chatnb.messages.part_schema import FINISHED_STATES
from chatnb.messages.refusal import NOTHING, Path, Refused


class TypedRules:
    """Checks clean messages against types, and replaces the checked values."""

    def __init__(self, metadata: Any, data: Mapping[str, Any] | None, tools: Mapping[str, Any] | None) -> None:
        """Prepare the types; see `validate_messages`."""
        self._metadata = None if metadata is None else TypeAdapter[Any](metadata)
        self._data = None if data is None else {name: TypeAdapter[Any](kind) for name, kind in data.items()}
        self._tools = None if tools is None else {name: _ToolTypes(entry) for name, entry in tools.items()}

    def apply(self, message: FrozenDict, path: Path) -> FrozenDict:
        """Return the message with checked values.

        Raises:
            Refused: For the first value that does not fit.
        """
        out: JsonObject = dict(message)
        if self._metadata is not None:
            at = (*path, "metadata")
            value = _checked(self._metadata, message.get("metadata"), at)
            if value is not None or "metadata" in message:
                out["metadata"] = freeze(value, at, finite=True)
        out["parts"] = FrozenList(
            [self._part(part, (*path, "parts", index)) for index, part in enumerate(message["parts"])]
        )
        return FrozenDict(out)

    def _part(self, part: FrozenDict, path: Path) -> FrozenDict:
        kind = part["type"]
        if kind.startswith("data-") and self._data is not None:
            adapter = self._data.get(kind[len("data-") :])
            at = (*path, "data")
            if adapter is None:
                raise Refused(at, "a data part whose name is listed", part["data"])
            return FrozenDict({**part, "data": _checked(adapter, part["data"], at)})
        if kind.startswith("tool-") and self._tools is not None:
            return self._tool(part, self._tools.get(kind[len("tool-") :]), path)
        return part

    def _tool(self, part: FrozenDict, types: _ToolTypes | None, path: Path) -> FrozenDict:
        state = part["state"]
        if types is None:
            if state in FINISHED_STATES:
                return _withheld(part)
            raise Refused((*path, "input"), "an action that is defined", part.get("input", NOTHING))
        changes: JsonObject = {}
        if types.input is not None and state != "input-streaming" and "input" in part:
            try:
                changes["input"] = _checked(types.input, part["input"], (*path, "input"))
            except Refused:
                empty = isinstance(part["input"], dict) and not part["input"]
                if state == "output-error" or (state == "output-available" and empty):
                    return _withheld(part)
                raise
        if types.output is not None and state == "output-available":
            changes["output"] = _checked(types.output, part["output"], (*path, "output"))
        return FrozenDict({**part, **changes})


class _ToolTypes:
    """The types of one action's input and output."""

    def __init__(self, entry: Any) -> None:
        given: tuple[Any, ...]
        if isinstance(entry, Mapping):
            given = (entry.get("input"), entry.get("output"))
        elif isinstance(entry, (tuple, list)):
            given = (*entry, None, None)[:2]
        else:
            given = (entry, None)
        self.input, self.output = (None if kind is None else TypeAdapter[Any](kind) for kind in given)


def _withheld(part: FrozenDict) -> FrozenDict:
    """Return a static call as a dynamic one that is marked as no longer known."""
    name = part["type"][len("tool-") :]
    return FrozenDict({**part, "type": "dynamic-tool", "toolName": name, "dynamic": False})


_LEAF: Final = "a value of the declared type"


def _checked(adapter: TypeAdapter[Any], value: JsonValue, path: Path) -> JsonValue:
    """Return the value after the type's own conversion, as JSON."""
    try:
        found = adapter.validate_python(value)
        plain = adapter.dump_python(found, mode="json", by_alias=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        inner, bad = _inside(value, first["loc"])
        raise Refused((*path, *inner), f"{_LEAF} ({first['type']})", bad) from None
    except Refused:
        raise
    except Exception:  # noqa: BLE001 - a type's own validator may raise anything, with the value in its text
        raise Refused(path, f"{_LEAF} (validator_threw)", value) from None
    return freeze(plain, path)


def _inside(value: JsonValue, loc: tuple[int | str, ...]) -> tuple[Path, object]:
    """Return where a pydantic error stands in the value. pydantic's own steps (union members) are left out."""
    path: list[int | str] = []
    at: object = value
    for number, step in enumerate(loc):
        is_last = number == len(loc) - 1
        if isinstance(at, dict) and isinstance(step, str):
            if step in at:
                path.append(step)
                at = at[step]
            elif is_last:
                path.append(step)
                at = NOTHING
        elif isinstance(at, list) and isinstance(step, int) and step < len(at):
            path.append(step)
            at = at[step]
    return tuple(path), at
