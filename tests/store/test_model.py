"""Random sequences of operations, against the same rules written as a dict."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from chatnb.errors import ChatInUseError, LeaseLostError
from chatnb.store import InputRow, NodeRow, Owner, TurnRow, memory_store
from chatnb.store.port import WriteTx

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
PICK = st.integers(0, 50)
INPUT_STATES = st.sampled_from(["waiting", "taken", "held", "done", "skipped"])
TURN_STATES = st.sampled_from(["queued", "running", "interrupted", "completed", "stopped", "error"])


class RolledBackError(Exception):
    """Raised in a transaction to take it back."""


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.store = memory_store()
        self.us = Owner(host="h", pid=1, start="s")
        self.token = self.store.open_chat("c", agent="a", owner=self.us).token
        self.old_token: str | None = None
        self.head: str | None = None
        self.nodes: dict[str, NodeRow] = {}
        self.messages: dict[str, Any] = {}
        self.inputs: dict[str, InputRow] = {}
        self.turns: dict[str, TurnRow] = {}
        self.chunks: dict[str, list[Any]] = {}

    def teardown(self) -> None:
        self.store.close()

    @contextmanager
    def write(self, rolled_back: bool) -> Iterator[WriteTx]:
        try:
            with self.store.write("c", self.token, durable=not rolled_back) as tx:
                yield tx
                if rolled_back:
                    raise RolledBackError
        except RolledBackError:
            pass

    @rule(message=JSON.filter(lambda value: value is not None), share=PICK, under=PICK, rolled_back=st.booleans())
    def add_node(self, message: Any, share: int, under: int, rolled_back: bool) -> None:
        number, known = len(self.nodes), list(self.nodes.values())
        shared = known[share] if share < len(known) else None
        row = NodeRow(
            node_id=f"n{number}",
            message_id=f"m{number}",
            parent=known[under].node_id if under < len(known) else None,
            ordinal=number,
            content_id=shared.content_id if shared else f"c{number}",
            role="user",
        )
        with self.write(rolled_back) as tx:
            tx.add_nodes([(row, None if shared else message)])
        if not rolled_back:
            self.nodes[row.node_id] = row
            self.messages[row.node_id] = self.messages[shared.node_id] if shared else message

    @precondition(lambda self: self.nodes)
    @rule(which=PICK, message=JSON, rolled_back=st.booleans())
    def set_message(self, which: int, message: Any, rolled_back: bool) -> None:
        row = list(self.nodes.values())[which % len(self.nodes)]
        with self.write(rolled_back) as tx:
            content_id = tx.set_message(row.node_id, message)
        if not rolled_back:
            self.nodes[row.node_id] = replace(row, content_id=content_id)
            self.messages[row.node_id] = message

    @precondition(lambda self: self.nodes)
    @rule(which=PICK, child=PICK, rolled_back=st.booleans())
    def set_shown(self, which: int, child: int, rolled_back: bool) -> None:
        names = list(self.nodes)
        name, shown = names[which % len(names)], names[child] if child < len(names) else None
        with self.write(rolled_back) as tx:
            tx.set_shown({name: shown})
        if not rolled_back:
            self.nodes[name] = replace(self.nodes[name], shown_child=shown)

    @rule(expect=PICK, to=PICK, right=st.booleans(), rolled_back=st.booleans())
    def move_head(self, expect: int, to: int, right: bool, rolled_back: bool) -> None:
        names = [None, *self.nodes]
        expected = self.head if right else names[expect % len(names)]
        target = names[to % len(names)]
        with self.write(rolled_back) as tx:
            moved = tx.move_head(expected, target)
        assert moved == (expected == self.head)
        if moved and not rolled_back:
            self.head = target

    @rule(payload=JSON, rolled_back=st.booleans())
    def add_input(self, payload: Any, rolled_back: bool) -> None:
        number = len(self.inputs)
        assert self.store.next_arrival("c") == number
        row = InputRow(id=f"i{number}", arrival=number, kind="send", payload=payload, generation=0)
        with self.write(rolled_back) as tx:
            tx.add_input(row)
        if not rolled_back:
            self.inputs[row.id] = row

    @rule(which=PICK, expect=st.sets(INPUT_STATES, max_size=3), to=INPUT_STATES, rolled_back=st.booleans())
    def move_input(self, which: int, expect: set[Any], to: Any, rolled_back: bool) -> None:
        found = self.inputs.get(f"i{which}")
        with self.write(rolled_back) as tx:
            moved = tx.move_input(f"i{which}", expect, to)
        assert moved == (found is not None and found.state in expect)
        if found is not None and moved and not rolled_back:
            self.inputs[found.id] = replace(found, state=to)

    @rule(stash=JSON, rolled_back=st.booleans())
    def add_turn(self, stash: Any, rolled_back: bool) -> None:
        number = len(self.turns)
        row = TurnRow(id=f"t{number}", number=number, trigger="submit-message", state="queued", stash=stash)
        with self.write(rolled_back) as tx:
            tx.add_turn(row)
        if not rolled_back:
            self.turns[row.id], self.chunks[row.id] = row, []

    @rule(which=PICK, expect=st.sets(TURN_STATES, max_size=3), to=TURN_STATES, rolled_back=st.booleans(), error=JSON)
    def move_turn(self, which: int, expect: set[Any], to: Any, rolled_back: bool, error: Any) -> None:
        found = self.turns.get(f"t{which}")
        with self.write(rolled_back) as tx:
            moved = tx.move_turn(f"t{which}", expect, to, error=error)
        assert moved == (found is not None and found.state in expect)
        if found is not None and moved and not rolled_back:
            self.turns[found.id] = replace(found, state=to, error=error)

    @precondition(lambda self: self.turns)
    @rule(which=PICK, batch=st.lists(JSON, max_size=3), rolled_back=st.booleans())
    def add_chunks(self, which: int, batch: list[Any], rolled_back: bool) -> None:
        name = f"t{which % len(self.turns)}"
        with self.write(rolled_back) as tx:
            tx.add_chunks(name, len(self.chunks[name]), batch)
        if not rolled_back:
            self.chunks[name] = self.chunks[name] + batch

    @rule(which=st.sets(PICK, max_size=3), rolled_back=st.booleans())
    def drop_chunks(self, which: set[int], rolled_back: bool) -> None:
        names = {f"t{number}" for number in which}
        with self.write(rolled_back) as tx:
            tx.drop_chunks(names)
        if not rolled_back:
            self.chunks |= {name: [] for name in names & set(self.chunks)}

    @rule(how=st.sampled_from(["released", "dead"]))
    def reopen(self, how: str) -> None:
        if how == "released":
            self.store.release_chat("c", self.token)
        else:
            self.store.forget_owner("c")
        opened = self.store.open_chat("c", agent="a", owner=self.us)
        assert (opened.owner_was, opened.created, opened.chat.head) == (how, False, self.head)
        self.old_token, self.token = self.token, opened.token

    @rule()
    def open_twice(self) -> None:
        if self.store.find_chat("d") is None:
            self.store.open_chat("d", agent="a", owner=Owner(host="elsewhere", pid=1, start="s"))
        with pytest.raises(ChatInUseError, match="elsewhere"):
            self.store.open_chat("d", agent="a", owner=self.us)

    @precondition(lambda self: self.old_token is not None)
    @rule()
    def write_with_the_old_token(self) -> None:
        assert self.old_token is not None
        with pytest.raises(LeaseLostError), self.store.write("c", self.old_token) as tx:
            tx.set_chat(head="never")

    @invariant()
    def same(self) -> None:
        chat = self.store.find_chat("c")
        assert chat is not None
        assert chat.head == self.head
        assert self.store.load_nodes("c") == list(self.nodes.values())
        assert self.store.load_messages("c", self.nodes) == self.messages
        states = ["waiting", "taken", "held", "done", "skipped"]
        assert self.store.load_inputs("c", states) == list(self.inputs.values())  # type: ignore[arg-type]
        assert self.store.load_turns("c") == list(self.turns.values())
        for name, chunks in self.chunks.items():
            assert self.store.load_chunks(name) == chunks


StoreMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestStore = StoreMachine.TestCase
