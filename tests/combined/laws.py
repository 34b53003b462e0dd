"""What must hold: after every step, and when the chat has come to rest."""

from __future__ import annotations

from collections import Counter
from typing import Any

from chatnb.messages import is_tool_part, validate_messages
from chatnb.store import InputState
from tests.combined.reference import LostError, Reference
from tests.combined.world import WRITES, World

ENDED = ("completed", "awaiting", "stopped", "error")
INPUT_STATES: tuple[InputState, ...] = ("waiting", "taken", "held", "done", "skipped")
NOT_RUN = ("Not executed", "nothing was done", "was not run")


def _is_planned(error: dict[str, Any]) -> bool:
    """Tell whether a turn's failure is one that the machine has asked for."""
    text = str(error.get("message", ""))
    gone = error.get("stage") == "input" and text.startswith("UnknownMessageError")  # edited away before it went on
    return text.endswith(" fails") or "nothing to answer" in text or gone


class Laws:
    """The checks of one chat, with the reference beside it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.reference = Reference()
        self.sent: set[str] = set()
        self.decided: dict[str, tuple[str, str]] = {}
        self.seen: set[str] = set()
        self.offered: str | None = None
        self.saw_offer = False
        self.refused: set[str] = set()
        self.resyncs = 0
        self.checks = 0
        self.deaths = 0

    # --- what the machine tells ---------------------------------------------------------------------------------

    def totals(self) -> dict[str, int]:
        """Return what was counted."""
        turns = Counter(f"turns {t.state}" for t in self.world.inner.load_turns("chat"))
        inputs = Counter(f"inputs {i.kind} {i.state}" for i in self.world.inner.load_inputs("chat", INPUT_STATES))
        done = {"checks": self.checks, "resyncs": self.resyncs, "deaths": self.deaths, "chats": 1}
        return {**done, **turns, **inputs, "calls entered": self.world.entered.total()}

    def decide(self, pending: Any, kind: str) -> None:
        """A person decides about a call."""
        self.decided[pending.id] = (pending.tool_call_id, kind)

    def known_ids(self) -> list[str]:
        """Return ids of messages that the reference knows."""
        return [n.id for n in self.reference.nodes if n.id is not None]

    # --- always -------------------------------------------------------------------------------------------------

    def always(self) -> None:
        """What holds at any moment."""
        twice = [call for call, times in self.world.entered.items() if times > 1]
        assert not twice, f"handlers entered twice: {twice}"
        chat = self.world.chat
        messages = [m.to_wire() for m in chat.messages]
        if messages:
            validate_messages(messages)
        ids = [m["id"] for m in messages]
        assert len(set(ids)) == len(ids), f"an id comes twice: {ids}"
        arrivals = [w.arrival for w in chat.queue]
        assert arrivals == sorted(arrivals), f"the queue is out of order: {chat.queue}"
        assert not chat.is_closed, "the chat is closed"
        self.saw_offer = self.saw_offer or self.world.engine.offer is not None

    def picture(self) -> Any:
        """Return what a chat at rest shows."""
        chat, engine = self.world.chat, self.world.engine
        return {
            "messages": [m.to_wire() for m in chat.messages],
            "pending": [(p.id, p.tool_call_id, p.hash, p.args) for p in chat.pending],
            "redo": len(engine.redo),
            "usage": chat.usage.total,
            "branches": [[(b.node_id, b.index, b.active) for b in chat.history.branches(m.id)] for m in chat.messages],
            "offered": getattr(chat.interruption, "turn_id", None) if engine.offer is not None else None,
            "next": engine.next_number,
            "queue": [(w.id, w.text) for w in chat.queue],
        }

    def same(self, before: Any) -> None:
        """Hold a reopened chat against what the live one showed."""
        after = self.picture()
        different = [key for key in before if before[key] != after[key]]
        assert not different, [(key, before[key], after[key]) for key in different]

    # --- at rest ------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Hold everything against the reference and the books."""
        self.checks += 1
        engine = self.world.engine
        assert engine.queue.is_idle, "the chat does not come to rest"
        assert not engine.steering, "steering messages are left"
        problems = [*self._state(), *self._calls(), *self._books(), *self._inputs()]
        assert not problems, problems
        try:
            if self.saw_offer or self.world.is_edited:
                raise LostError  # what was held runs in another order; a hook has edited
            self._follow()
            problems = self.reference.agree(list(self.world.chat.messages))
        except LostError:
            problems = []
            self._resync()
        self.saw_offer = self.world.engine.offer is not None
        self.world.is_edited = False
        if not problems:
            problems = self._branches()
        assert not problems, problems

    def _state(self) -> list[str]:
        chat, engine, row = self.world.chat, self.world.engine, self.world.inner.find_chat("chat")
        found: list[str] = []
        assert row is not None
        if chat.status not in ("ready", "error"):
            found.append(f"status {chat.status} at rest")
        if chat.is_recovering or row.recovering:
            found.append(f"recovering at rest: {chat.is_recovering}, stored {row.recovering}")
        if chat.is_tool_continuation:
            found.append("a continuation is shown at rest")
        if row.head != engine.tree.head or row.generation != engine.generation:
            found.append(f"the row's head {row.head}, the tree's {engine.tree.head}")
        if tuple(row.redo) != tuple(engine.redo):
            found.append(f"redo {row.redo} stored, {engine.redo} live")
        if row.next_number != engine.next_number:
            found.append("the next number differs")
        if engine.held_decisions:
            found.append("decisions are still held")
        if engine.partial is not None or engine.unsaved is not None:
            found.append("a partial is left over")
        turns = self.world.inner.load_turns("chat")
        if [t.number for t in turns] != list(range(len(turns))):
            found.append(f"turn numbers {[t.number for t in turns]}")
        is_offered = engine.offer is not None
        for turn in turns:
            is_open = turn.state not in ENDED
            if is_open and not (is_offered and turn.state == "interrupted"):
                found.append(f"turn {turn.number} is {turn.state}")
            if turn.error is not None and not _is_planned(turn.error):
                found.append(f"turn {turn.number} failed: {turn.error}")
            if not is_open and not turn.hooks_done:
                found.append(f"turn {turn.number} ended without its hook")
        alive = {t for t in engine.tasks if not t.done() and "tidying" not in t.get_name()}
        if alive:
            found.append(f"tasks are left: {[t.get_name() for t in alive]}")
        if engine.background:
            found.append("background work is left")
        return found

    def _nodes(self) -> list[Any]:
        tree = self.world.engine.tree
        return [tree.message(node.node_id) for node in self.world.inner.load_nodes("chat")]

    def _calls(self) -> list[str]:
        """Each call's part says what was done."""
        found: list[str] = []
        entered, returned = self.world.entered, self.world.returned
        chat = self.world.chat
        offered = getattr(chat.interruption, "message_id", None) if self.world.engine.offer is not None else None
        tree = self.world.engine.tree
        chain = {id(tree.message(node_id)) for node_id in tree.chain if tree.node(node_id).message_id != offered}
        rows = self.world.inner.load_calls("chat")
        states: dict[str, set[str]] = {}
        for message in self._nodes():
            for part in message.parts:
                if not is_tool_part(part):
                    continue
                call = part.tool_call_id
                states.setdefault(call, set()).add(part.state)
                text = str(getattr(part, "error_text", "") or "")
                if part.state == "input-streaming" and message.id != offered:
                    found.append(f"{call} is {part.state}")
                if part.tool_name not in WRITES:
                    continue
                is_open = part.state in ("input-available", "approval-requested", "approval-responded")
                if is_open and entered[call] and id(message) in chain:
                    found.append(f"{call} was entered and is {part.state}")
                if part.state == "output-denied" and entered[call]:
                    found.append(f"{call} was entered and is denied")
                if part.state == "output-available" and "ot executed" not in str(part.output) and not returned[call]:
                    found.append(f"{call} has an output and did not return")
                if part.state == "output-error" and any(t in text for t in NOT_RUN[:2]) and entered[call]:
                    found.append(f"{call} was entered, and says: {text}")
        for call in entered:
            is_mine = any(r.tool_call_id == call for r in rows)
            if is_mine and call not in states:
                found.append(f"{call} was entered and is in no message")
        waiting = {
            p.tool_call_id
            for m in chat.messages
            for p in m.parts
            if is_tool_part(p) and p.state == "approval-requested"
        }
        pending = {p.tool_call_id for p in chat.pending if p.kind == "approval"}
        if waiting != pending and self.world.engine.offer is None:
            found.append(f"pending {pending}, the chain asks {waiting}")
        if chat.messages and chat.messages[-1].role == "assistant" and self.world.engine.offer is None:
            last = chat.messages[-1]
            stuck = [
                p.tool_call_id
                for p in last.parts
                if is_tool_part(p) and p.state == "approval-responded" and not pending
            ]
            turns = self.world.inner.load_turns("chat")
            if stuck and not any(p.kind == "client-tool" for p in chat.pending) and turns[-1].state == "awaiting":
                found.append(f"decided and nothing goes on: {stuck}")
        return found

    def _books(self) -> list[str]:
        found: list[str] = []
        rows = self.world.inner.load_calls("chat")
        audit = Counter(a.tool_call_id for a in self.world.inner.load_audit("chat") if a.effect is not None)
        for row in rows:
            call = row.tool_call_id or ""
            if row.state == "entered":
                found.append(f"{call} is still entered")
            if row.state == "done" and row.action in WRITES and self.world.returned[call] != 1:
                found.append(f"{call} is done and returned {self.world.returned[call]} times")
            if row.state in ("done", "failed") and audit[call] < 1:
                found.append(f"{call} is {row.state} and not audited")
        for call, times in self.world.entered.items():
            if times and not any(r.tool_call_id == call for r in [*rows, *self._child_rows()]):
                found.append(f"{call} was entered without a row")
        return found

    def _child_rows(self) -> list[Any]:
        inner = self.world.inner
        return [row for chat in inner.list_chats() if chat.id != "chat" for row in inner.load_calls(chat.id)]

    def _inputs(self) -> list[str]:
        """Every admitted message stands in the tree, once, or its input was skipped."""
        found: list[str] = []
        inner = self.world.inner
        is_offered = self.world.engine.offer is not None
        rows = inner.load_inputs("chat", INPUT_STATES)
        left = [r for r in rows if r.state in ("waiting", "taken") or (r.state == "held" and not is_offered)]
        left = [r for r in left if not (is_offered and (r.state == "taken" or r.kind == "decision"))]
        found += [f"input {r.kind} {r.arrival} is {r.state}" for r in left]
        texts: Counter[str] = Counter()
        seen: set[str] = set()
        for message in self._nodes():
            if message.role == "user" and message.id not in seen:
                seen.add(message.id)
                texts.update(line for line in message.text.split("\n\n"))
            if message.role == "assistant" and message.id not in seen:
                seen.add(message.id)
                texts.update(p.wire["data"]["text"] for p in message.parts if p.type == "data-steering-message")
        for row in rows:
            if row.kind != "send":
                continue
            text = next(p["text"] for p in row.payload["message"]["parts"] if p["type"] == "text")
            times = texts[text]
            if row.state == "done" and times != 1:
                found.append(f"{text!r} was taken in and stands in the tree {times} times")
            if row.state in ("skipped",) and times > 1:
                found.append(f"{text!r} was skipped and stands in the tree {times} times")
        return found

    def _branches(self) -> list[str]:
        """Versions and redo are those of the reference."""
        found: list[str] = []
        chat, reference = self.world.chat, self.reference
        for node in reference.chain:
            branches = [b.message.id for b in chat.history.branches(str(node.id))]
            mine = [n.id for n in reference.siblings(node)]
            if len(branches) != len(mine) or any(m not in (None, b) for m, b in zip(mine, branches, strict=False)):
                found.append(f"versions of {node.id} are {branches}, expected {mine}")
            else:
                for known, id_ in zip(reference.siblings(node), branches, strict=True):
                    known.id = id_
        if len(reference.redo) != len(self.world.engine.redo):
            found.append(f"redo has {self.world.engine.redo}, expected {[n and n.id for n in reference.redo]}")
        return found

    # --- following the inputs -----------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Let the reference do what the stored inputs say, in their order."""
        inner, engine = self.world.inner, self.world.engine
        turns = inner.load_turns("chat")
        by_input = {t.input_id: t for t in turns if t.input_id is not None}
        rows = [r for r in inner.load_inputs("chat", INPUT_STATES) if r.id not in self.seen and r.state != "held"]
        self.seen |= {r.id for r in rows}
        followers = [r for r in rows if r.kind == "action-turn"]
        self.refused = {
            id_
            for row in rows
            if row.id in by_input and (by_input[row.id].error or {}).get("stage") == "on_validate_messages"
            for id_ in (row.id, *(row.payload or {}).get("supersedes", ()))
        }
        if self.refused and self.world.config.steering:
            raise LostError  # messages that no boundary took are refused together; no row tells which
        in_tree = {node.message_id for node in inner.load_nodes("chat")}
        reference = self.reference
        former = next((t for t in turns if t.id == self.offered), None)
        if former is not None and self._answered(former, in_tree) and any(r.kind == "continue" for r in rows):
            reference.answer(former.assistant_id)
        for row in rows:
            self._follow_one(row, by_input, followers, in_tree)
        self.offered = next((t.id for t in turns if t.state == "interrupted"), None) if engine.offer else None

    def _answered(self, turn: Any, in_tree: set[str]) -> bool:
        return turn.assistant_id in in_tree

    def _follow_one(self, row: Any, by_input: dict[str, Any], followers: list[Any], in_tree: set[str]) -> None:
        reference, turn, payload = self.reference, by_input.get(row.id), row.payload or {}
        if row.state == "skipped" and row.kind == "save":
            raise LostError  # its list may have been saved when the process died
        if row.state == "skipped" or row.kind in ("decision", "action-turn", "recovery"):
            return
        answer = turn.assistant_id if turn is not None and turn.assistant_id in in_tree else None
        if row.kind == "send":
            id_ = payload["message"]["id"]
            if row.id in self.refused and id_ in in_tree:
                reference.add_branch(id_, "user")
                return
            if id_ in in_tree:
                reference.send(id_)
            if answer is not None:
                reference.answer(answer)
        elif row.kind == "save":
            leaf = next((n for n in self.world.inner.load_nodes("chat") if turn and n.node_id == turn.leaf_id), None)
            if turn is None or leaf is None or leaf.role != "user":
                raise LostError
            reference.send(leaf.message_id)
            if answer is not None:
                reference.answer(answer)
        elif row.kind == "regenerate":
            if turn is None:
                return
            target = reference.to_answer(payload.get("messageId"))
            if turn.leaf_id is not None:
                if isinstance(target, str):
                    raise AssertionError(f"a regenerate ran that can't: {target}")
                reference.regenerate(target)
            if answer is not None:
                reference.answer(answer)
        elif row.kind in ("continue", "continuation"):
            if answer is not None and reference.on_chain(answer) is None:
                reference.answer(answer)
        elif row.kind == "action":
            follower = next((f for f in followers if f.body is not None and f.body == row.body), None)
            self._follow_action(payload["action"], by_input, follower, in_tree)

    def _follow_action(
        self, action: dict[str, Any], by_input: dict[str, Any], follower: Any, in_tree: set[str]
    ) -> None:
        reference, kind, id_ = self.reference, action["type"], str(action.get("messageId"))
        answers = False
        if kind == "undo":
            reference.undo()
        elif kind == "redo":
            reference.take_back()
        elif kind == "clear":
            reference.clear()
        elif kind == "rollback":
            reference.rollback(id_)
        elif kind == "switch":
            reference.switch(id_)
        elif kind == "remove":
            reference.remove(id_)
        elif kind == "edit":
            role = reference.edit(id_)
            answers = role == "user"
            if role is not None and reference.head is not None:
                reference.head.id = next((m.id for m in self._nodes() if action["text"] in m.text), None)
        elif kind in ("drop", "again"):
            reference.keep(-2 if kind == "drop" else -1)
            answers = follower is not None
        elif kind == "regenerate":
            target = reference.to_answer(action.get("messageId"))
            if not isinstance(target, str):
                reference.regenerate(target)
                answers = True
        if answers:
            turn = by_input.get(follower.id) if follower is not None else None
            if turn is not None and turn.assistant_id in in_tree:
                reference.answer(turn.assistant_id)

    def _resync(self) -> None:
        """Begin anew from what is there: the reference could not tell."""
        from tests.combined.reference import Node

        self.resyncs += 1
        engine, inner = self.world.engine, self.world.inner
        reference = self.reference = Reference()
        made: dict[str | None, Node | None] = {None: None}
        rows = inner.load_nodes("chat")
        for row in rows:
            node = Node(row.message_id, row.role, made[row.parent])
            made[row.node_id] = node
            reference.nodes.append(node)
        for row in rows:
            if row.shown_child is not None:
                made[row.node_id].shown = made[row.shown_child]  # type: ignore[union-attr]
        reference.head = made[engine.tree.head]
        reference.redo = [made[h] for h in engine.redo]
        self.seen |= {r.id for r in inner.load_inputs("chat", INPUT_STATES) if r.state != "held"}
        turns = inner.load_turns("chat")
        self.offered = next((t.id for t in turns if t.state == "interrupted"), None) if engine.offer else None
        reference.agree(list(self.world.chat.messages))
