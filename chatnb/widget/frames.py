"""Frames from pictures: what changed since the last one, as operations (spec/widget.md, 3.1). Pure: no clock, no I/O.

The builder keeps what a view that got every frame shows (its shadow). Text deltas take a short way: they are
appended to the window's operations and to the shadow, at the cost of the delta. Every other change is found by
comparing the next picture with the shadow by identity, so that a missed or surplus notification can't make views wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .._json import JsonValue, whole
from ..messages import UIMessage
from .cutting import cut_ops, pack
from .operations import JsonObject
from .picture import Picture
from .protocol import VERSION
from .redaction import BEGINNING
from .view_form import Form, ViewForm, text_field

MANY_FOOTERS = 1_000
"""Messages whose usage changed in one window above which a `reset` is cheaper."""
MANY = 50
"""Messages inserted in one window above which a `reset` is cheaper."""
_HIGH = ("\ud800", "\udbff")


@dataclass(slots=True)
class _Shown:
    """A message as views have it: its source, and what was appended to its parts since."""

    source: UIMessage
    pieces: dict[int, list[str]] = field(default_factory=dict)


class FrameBuilder:
    """Turns pictures and text deltas into numbered `ops` frames.

    Attributes:
        seq: The number of the last frame.
        picture: The last picture that was compared.
        is_reset_due: The changes were dearer than a `reset`; they took a number, and every view needs a `reset`.
    """

    def __init__(self, epoch: str, form: ViewForm) -> None:
        self._epoch = epoch
        self._form = form
        self.seq = 0
        self.picture = Picture()
        self.is_reset_due = False
        self._ops: list[Form] = []
        self._shown: dict[str, _Shown] = {}
        self._chain: tuple[UIMessage, ...] = ()
        self._keys: list[str] = []
        self._half = ""
        self._half_at: tuple[str, int, str] | None = None
        self._end_at: tuple[str, int, str] | None = None
        self._end = ""
        self._kept_back = ""

    # --- changes ------------------------------------------------------------------------------------------------

    def text(self, message_id: str, index: int, field_name: str, delta: str) -> bool:
        """Append a delta; False when views do not have that part yet, so that a picture is needed."""
        shown = self._shown.get(message_id)
        if shown is None or index >= len(shown.source.parts):
            return False
        wire = shown.source.parts[index].wire
        known = wire.get("type") in ("text", "reasoning") if field_name == "text" else "rawInput" in wire
        if not known:
            return False
        at = (message_id, index, field_name)
        if self._half and self._half_at == at:
            delta, self._half = self._half + delta, ""
        elif self._half:
            return False
        if delta and _HIGH[0] <= delta[-1] <= _HIGH[1]:
            delta, self._half, self._half_at = delta[:-1], delta[-1], at
        checked = self._checked(at, whole(delta), shown)
        if checked is None:
            return False
        delta = checked
        if not delta:
            return True
        shown.pieces.setdefault(index, []).append(delta)
        last = self._ops[-1] if self._ops else None
        if last is not None and last["op"] == "text" and (last["m"], last["p"], last["field"]) == at:
            last["d"].append(delta)
        else:
            self._ops.append({"op": "text", "m": message_id, "p": index, "field": field_name, "d": [delta]})
        return True

    def _checked(self, at: tuple[str, int, str], delta: str, shown: _Shown) -> str | None:
        """Return what of a delta may go now; None when a credential is complete, or another text waits to go on.

        A credential may come in pieces: what may be the beginning of one stays here until it is known to be none.
        """
        credentials = self._form.credentials
        if credentials is None or not credentials.longest:
            return delta
        if self._end_at != at:
            if self._kept_back:
                return None
            end = self._shown_part(shown, at[1]).get(at[2], "")
            self._end_at, self._end = at, end[-credentials.longest :]
        if not self._kept_back and not credentials.may_begin(latest := self._end[-BEGINNING:] + delta):
            self._end = latest[-BEGINNING:]  # none begins before
            return delta
        new = self._kept_back + delta
        count = credentials.kept_back(self._end + new)
        if count is None:
            return None
        sent = new[: max(0, len(new) - count)]
        self._kept_back = new[len(sent) :]
        self._end = (self._end + sent)[-credentials.longest :]
        return sent

    def change(self, data: JsonValue) -> None:
        """Tell that kernel data changed."""
        self._ops.append({"op": "change", "change": self._form.value(data)})

    def compare(self, picture: Picture) -> None:
        """Add the operations that lead from what is shown to a picture."""
        before, self.picture, self._half = self.picture, picture, ""
        self._end_at, self._end, self._kept_back = None, "", ""
        self._compare_messages(before, picture)
        for id, call in picture.calls.items():
            if before.calls.get(id) != call:
                self._ops.append({"op": "call", **call})
        for id, call in before.calls.items():
            if id not in picture.calls and call.get("phase") != "done":
                self._ops.append({"op": "call", "toolCallId": id, "phase": "done"})
        if list(picture.pending) != list(before.pending):
            self._ops.append({"op": "pending", "items": list(picture.pending)})
        if list(picture.queue) != list(before.queue):
            self._ops.append({"op": "queue", "items": list(picture.queue)})
        for id, notice in picture.notices.items():
            if before.notices.get(id) != notice:
                self._ops.append({"op": "notice", **notice})
        for id in before.notices:
            if id not in picture.notices:
                self._ops.append({"op": "notice", "id": id, "level": "info", "text": "", "actions": []})
        state = {key: value for key, value in picture.state.items() if before.state.get(key, _UNSET) != value}
        if "usage" in state:
            state["usage"] = _changed_usage(before.state.get("usage"), state["usage"])
        if state:
            self._ops.append({"op": "state", "state": state})
            many = len(state["usage"]["messages"]) if "usage" in state else 0
            self.is_reset_due = self.is_reset_due or many > MANY_FOOTERS

    def load_part(self, message_id: str, index: int) -> bool:
        """Add a whole part again, for a view that has it cut; False when there is none."""
        shown = self._shown.get(message_id)
        if shown is None or not 0 <= index < len(shown.source.parts):
            return False
        self._ops.append({"op": "part", "m": message_id, "p": index, "part": self._shown_part(shown, index)})
        return True

    def shown_form(self, key: str) -> Form:
        """Return a shown message in the view's form, with all that was appended to it."""
        shown = self._shown[key]
        form = self._form.outline(shown.source)
        form["id"] = key
        form["parts"] = [self._shown_part(shown, index) for index in range(len(shown.source.parts))]
        return form

    @property
    def keys(self) -> Sequence[str]:
        """The ids of the shown messages, in order."""
        return self._keys

    def _shown_part(self, shown: _Shown, index: int) -> Form:
        form = self._form.part(shown.source.parts[index], shown.source)
        pieces = shown.pieces.get(index)
        name = text_field(form)
        if not pieces or name is None:
            return form
        return {**form, name: form[name] + "".join(pieces)}

    # --- messages -----------------------------------------------------------------------------------------------

    def _compare_messages(self, before: Picture, picture: Picture) -> None:
        old, new = self._chain, picture.messages
        same = 0
        limit = min(len(old), len(new))
        while same < limit and old[same] is new[same]:
            same += 1
        if before.branches != picture.branches:
            self._compare_branches(same, before, picture)
        if same == len(old) == len(new):
            return
        keys = self._keys[:same] + view_keys(new[same:], self._keys[:same])
        old_tail, new_tail = self._keys[same:], keys[same:]
        kept = set(new_tail)
        gone = [key for key in old_tail if key not in kept]
        if gone:
            self._ops.append({"op": "drop", "ids": gone})
            for key in gone:
                del self._shown[key]
        rest = [key for key in old_tail if key in kept]
        known = set(rest)
        if len(new_tail) - len(rest) > MANY:
            self.is_reset_due = True
        after = self._keys[same - 1] if same else None
        for place, (key, message) in enumerate(zip(new_tail, new[same:], strict=True)):
            if key in known:
                if rest[place] != key:
                    self._ops.append({"op": "move", "m": key, "after": after})
                    rest.remove(key)
                    rest.insert(place, key)
                self._compare_message(key, message, after, before, picture)
            else:
                rest.insert(place, key)
                self._shown[key] = _Shown(message)
                if not self.is_reset_due:
                    self._insert(key, after, picture)
            after = key
        self._chain, self._keys = new, keys

    def _compare_branches(self, same: int, before: Picture, picture: Picture) -> None:
        for place in range(same):
            id = self._chain[place].id
            if before.branches.get(id) != picture.branches.get(id):
                self._insert(self._keys[place], self._keys[place - 1] if place else None, picture)

    def _insert(self, key: str, after: str | None, picture: Picture) -> None:
        op: Form = {"op": "msg", "message": self.shown_form(key), "after": after}
        branch = branch_of(picture, self._shown[key].source.id)
        if branch is not None:
            op["branch"] = branch
        self._ops.append(op)

    def _compare_message(
        self, key: str, message: UIMessage, after: str | None, before: Picture, picture: Picture
    ) -> None:
        shown = self._shown[key]
        old = shown.source
        if old is message and before.branches.get(message.id) == picture.branches.get(message.id):
            return
        outline, former = self._form.outline(message), self._form.outline(old)
        is_new = (
            outline != former
            or len(message.parts) < len(old.parts)
            or before.branches.get(message.id) != picture.branches.get(message.id)
        )
        if is_new:
            self._shown[key] = _Shown(message)
            self._insert(key, after, picture)
            return
        for index, part in enumerate(message.parts):
            if index >= len(old.parts):
                self._put_part(key, index, self._form.part(part, message))
            elif part is not old.parts[index] or shown.pieces.get(index):
                self._compare_part(key, index, self._shown_part(shown, index), self._form.part(part, message))
        self._shown[key] = _Shown(message)

    def _compare_part(self, key: str, index: int, old: Form, new: Form) -> None:
        if old == new:
            return
        name = text_field(new)
        if name is not None and name == text_field(old) and new[name].startswith(old[name]):
            rest = {k: v for k, v in new.items() if k != name}
            if rest == {k: v for k, v in old.items() if k != name}:
                op = {"op": "text", "m": key, "p": index, "field": name, "d": [new[name][len(old[name]) :]]}
                self._ops.append(op)
                return
        self._put_part(key, index, new)

    def _put_part(self, key: str, index: int, form: Form) -> None:
        # The whole part makes what was gathered for it before superfluous.
        self._ops = [op for op in self._ops if (op.get("m"), op.get("p")) != (key, index)]
        self._ops.append({"op": "part", "m": key, "p": index, "part": form})

    # --- frames -------------------------------------------------------------------------------------------------

    @property
    def has_ops(self) -> bool:
        """Whether anything was gathered."""
        return bool(self._ops)

    def cut(self) -> list[JsonObject]:
        """Return the frames of what was gathered, each with the next number."""
        ops, self._ops = self._ops, []
        if self.is_reset_due:
            self.seq += 1
            return []
        return [self._frame(batch) for batch in pack(cut_ops(ops))]

    def _frame(self, ops: list[Form]) -> JsonObject:
        self.seq += 1
        return {"v": VERSION, "epoch": self._epoch, "type": "ops", "seq": self.seq, "ops": ops}


_UNSET: JsonValue = object()


def view_keys(messages: Sequence[UIMessage], before: Sequence[str] = ()) -> list[str]:
    """Return a name for each message that is unique in a view: its id, with a number where an id is used again."""
    used = set(before)
    keys = []
    for message in messages:
        key, again = message.id, 1
        while key in used:
            again += 1
            key = f"{message.id}#{again}"
        used.add(key)
        keys.append(key)
    return keys


def branch_of(picture: Picture, id: str) -> Form | None:
    """Return the branch mark of a message, where it has siblings."""
    found = picture.branches.get(id)
    return None if found is None else {"index": found[0], "count": found[1]}


def _changed_usage(before: JsonValue, after: JsonValue) -> JsonValue:
    """Views lay usage over by message; only what changed is sent."""
    old = (before or {}).get("messages", {})
    if old is after["messages"]:
        return {**after, "messages": {}}
    return {**after, "messages": {id: value for id, value in after["messages"].items() if old.get(id) != value}}
