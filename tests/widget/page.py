"""A page after the rules of spec/widget.md, section 3, in Python: what a view does with frames, and how it commands."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import count
from typing import Any

READS = {"hello", "bye", "loadEarlier", "loadPart", "getAsset", "getExtra"}
FREE = READS | {"stop", "cancel", "approve", "reject", "toolStarted", "toolOutput", "toolError"}


class Page:
    """One view.

    Args:
        id: The view's id.
        timers: Simulated time.
        post: Sends a command to the kernel; may lose it.
    """

    def __init__(self, id: str, timers: Any, post: Callable[[dict[str, Any], list[bytes]], None]) -> None:
        self.id = id
        self._timers = timers
        self._post = post
        self._numbers = count(1)
        self.epoch = ""
        self.seq: int | None = None
        self.nonce: str | None = None
        self.messages: list[dict[str, Any]] = []
        self.branches: dict[str, Any] = {}
        self.state: dict[str, Any] = {}
        self.pending: list[Any] = []
        self.queue: list[Any] = []
        self.calls: dict[str, Any] = {}
        self.notices: dict[str, Any] = {}
        self.assets: dict[str, dict[int, bytes]] = {}
        self.has_earlier = False
        self.acks: dict[str, dict[str, Any]] = {}
        self.commanded: dict[str, dict[str, Any]] = {}
        self.run: list[dict[str, Any]] = []
        self.unsupported: dict[str, Any] | None = None
        self._waiting: list[dict[str, Any]] = []
        self._open: dict[str, tuple[dict[str, Any], list[bytes]]] = {}
        self._pieces: dict[int, dict[str, Any]] = {}
        self._pieces_of: tuple[int, int] | None = None
        self._kept: list[dict[str, Any]] = []
        self._hello_at = float("-inf")
        self._heard_at = 0.0
        self.answered = False

    # --- commands -----------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Say hello until somebody answers."""
        self._say_hello_until_answered(0)
        self._watch()

    def _say_hello_until_answered(self, tries: int) -> None:
        if not self.answered:
            self.hello()
            self._timers.call_later(0.25 if tries < 8 else 1.0, lambda: self._say_hello_until_answered(tries + 1))

    def hello(self) -> None:
        """Say hello once."""
        self._hello_at = self._timers.time()
        last = None if self.seq is None else {"epoch": self.epoch, "seq": self.seq}
        self._send({"type": "hello", "versions": [1], "last": last}, [])

    def command(self, type: str, buffers: list[bytes] | None = None, id: str | None = None, **fields: Any) -> str:
        """Send a command; without an answer it goes again. Those that change history go one at a time."""
        command = {"type": type, "id": id or f"{self.id}-{next(self._numbers)}", **fields}
        self.commanded[str(command["id"])] = command
        if type in FREE:
            self._go(command, buffers or [])
        else:
            self._waiting.append({"command": command, "buffers": buffers or []})
            self._next()
        return str(command["id"])

    def _next(self) -> None:
        busy = any(command["type"] not in FREE for command, _ in self._open.values())
        if self._waiting and not busy:
            item = self._waiting.pop(0)
            self._go(item["command"], item["buffers"])

    def _go(self, command: dict[str, Any], buffers: list[bytes]) -> None:
        self._open[command["id"]] = (command, buffers)
        self._try(command["id"], 0)

    def _try(self, id: str, tries: int) -> None:
        if id not in self._open:
            return
        command, buffers = self._open[id]
        self._send(command, buffers)
        self._timers.call_later([2, 4, 8][tries] if tries < 3 else 10, lambda: self._try(id, tries + 1))

    def _send(self, command: dict[str, Any], buffers: list[bytes]) -> None:
        id = command.get("id") or f"{self.id}-{next(self._numbers)}"
        self._post({"v": 1, "epoch": self.epoch, "view": self.id, **command, "id": id}, buffers)

    def _watch(self) -> None:
        silent = self._timers.time() - self._heard_at
        every = self.state.get("helloEvery")
        if self.state.get("status") in ("submitted", "streaming") and silent >= 5:
            self._gap()
        elif every is not None and silent >= every / 1000:
            self._heard_at = self._timers.time()
            self.hello()
        self._timers.call_later(1.0, self._watch)

    # --- frames -------------------------------------------------------------------------------------------------

    def receive(self, frame: dict[str, Any], buffers: list[bytes]) -> None:
        """Take one frame."""
        if frame.get("to", self.id) != self.id:
            return
        if frame["epoch"] != self.epoch:
            if frame["type"] not in ("secret", "unsupported", "ack", "mark") and frame["type"] != "reset":
                return
            self.epoch = frame["epoch"]
        self._heard_at = self._timers.time()
        getattr(self, f"_on_{frame['type']}")(frame, buffers)

    def _on_secret(self, frame: dict[str, Any], _: Any) -> None:
        self.nonce = frame["nonce"]

    def _on_unsupported(self, frame: dict[str, Any], _: Any) -> None:
        self.unsupported = frame
        self.answered = True

    def _on_run(self, frame: dict[str, Any], _: Any) -> None:
        self.run.append(frame)

    def _on_ack(self, frame: dict[str, Any], _: Any) -> None:
        self.acks[frame["id"]] = frame
        self._open.pop(frame["id"], None)
        if not frame["ok"] and frame["error"]["code"] == "stale_epoch":
            self.hello()
        self._next()

    def _on_asset(self, frame: dict[str, Any], buffers: list[bytes]) -> None:
        self.assets.setdefault(frame["hash"], {})[frame["index"]] = buffers[0]

    def _on_mark(self, frame: dict[str, Any], _: Any) -> None:
        if self.seq is None or frame["seq"] > self.seq:
            self._gap()
        else:
            self.answered = True

    def _on_reset(self, frame: dict[str, Any], _: Any) -> None:
        if self.seq is not None and frame["seq"] < self.seq:
            return
        key = (frame["seq"], frame["count"])
        if self._pieces_of != key:
            self._pieces, self._pieces_of = {}, key
            self._timers.call_later(1.0, lambda: self._give_up(key))
        self._pieces[frame["index"]] = frame["snapshot"]
        if len(self._pieces) == frame["count"]:
            self._pieces_of = None
            self._take(frame["seq"])

    def _give_up(self, key: tuple[int, int]) -> None:
        if self._pieces_of == key:
            self._pieces_of, self._pieces = None, {}
            self.hello()

    def _take(self, seq: int) -> None:
        first = self._pieces[0]
        self.messages, self.branches = [], {}
        for index in range(len(self._pieces)):
            self._add_entries(self._pieces[index]["messages"], self.messages)
        self.state = {**copy.deepcopy(first["state"]), "options": first["options"]}
        self.pending, self.queue = first["pending"], first["queue"]
        self.calls = {call["toolCallId"]: dict(call) for call in first["calls"]}
        self.notices = {notice["id"]: notice for notice in first["notices"]}
        self.has_earlier = first["hasEarlier"]
        self.seq = seq
        self.answered = True
        kept, self._kept = self._kept, []
        for frame in sorted(kept, key=lambda kept: kept["seq"]):
            self._on_ops(frame, None)

    def _add_entries(self, entries: list[Any], into: list[Any]) -> None:
        for entry in entries:
            message = copy.deepcopy(entry["message"])
            if entry.get("more"):
                into[-1]["parts"].extend(message["parts"])
            else:
                into.append(message)
            if entry.get("branch"):
                self.branches[message["id"]] = entry["branch"]

    def _on_page(self, frame: dict[str, Any], _: Any) -> None:
        if self.messages and self.messages[0]["id"] == frame["before"]:
            earlier: list[Any] = []
            self._add_entries(frame["messages"], earlier)
            self.messages[:0] = earlier
            self.has_earlier = frame["hasEarlier"]

    def _gap(self) -> None:
        if self._timers.time() - self._hello_at >= 0.5:
            self.hello()

    def _on_ops(self, frame: dict[str, Any], _: Any) -> None:
        if self.seq is None or frame["seq"] > self.seq + 1 or self._pieces_of is not None:
            self._kept = [*self._kept, frame][-200:]
            if self.seq is not None and self._pieces_of is None:
                self._gap()
            return
        if frame["seq"] <= self.seq:
            return
        self.seq = frame["seq"]
        for op in frame["ops"]:
            getattr(self, f"_op_{op['op']}")(copy.deepcopy(op))

    # --- operations ---------------------------------------------------------------------------------------------

    def _find(self, id: str) -> dict[str, Any] | None:
        return next((message for message in self.messages if message["id"] == id), None)

    def _op_text(self, op: dict[str, Any]) -> None:
        message = self._find(op["m"])
        if message is not None:
            message["parts"][op["p"]][op["field"]] += op["d"]

    def _op_part(self, op: dict[str, Any]) -> None:
        message = self._find(op["m"])
        if message is None:
            return
        assert op["p"] <= len(message["parts"]), "a part is set or appended"
        message["parts"][op["p"] : op["p"] + 1] = [op["part"]]

    def _op_msg(self, op: dict[str, Any]) -> None:
        message = op["message"]
        known = self._find(message["id"])
        if known is None and not self._place(message, op["after"]):
            return
        if known is not None:
            self.messages[self.messages.index(known)] = message
        self.branches.pop(message["id"], None)
        if op.get("branch"):
            self.branches[message["id"]] = op["branch"]

    def _place(self, message: dict[str, Any], after: str | None) -> bool:
        before = None if after is None else self._find(after)
        if after is None and self.has_earlier:
            return False
        if after is not None and before is None:
            return False
        self.messages.insert(0 if before is None else self.messages.index(before) + 1, message)
        return True

    def _op_move(self, op: dict[str, Any]) -> None:
        message = self._find(op["m"])
        if message is not None:
            self.messages.remove(message)
            self._place(message, op["after"])

    def _op_drop(self, op: dict[str, Any]) -> None:
        self.messages = [message for message in self.messages if message["id"] not in op["ids"]]

    def _op_state(self, op: dict[str, Any]) -> None:
        usage = op["state"].pop("usage", None)
        self.state.update(op["state"])
        if usage is not None:
            before = self.state.get("usage") or {"messages": {}}
            self.state["usage"] = {**usage, "messages": {**before["messages"], **usage["messages"]}}

    def _op_pending(self, op: dict[str, Any]) -> None:
        self.pending = op["items"]

    def _op_queue(self, op: dict[str, Any]) -> None:
        self.queue = op["items"]

    def _op_call(self, op: dict[str, Any]) -> None:
        self.calls[op["toolCallId"]] = {**self.calls.get(op["toolCallId"], {}), **op}

    def _op_notice(self, op: dict[str, Any]) -> None:
        self.notices.pop(op["id"], None)
        if op["text"]:
            self.notices[op["id"]] = op

    def _op_change(self, op: dict[str, Any]) -> None:
        pass
