"""A slice of the machine with a fixed seed; `python -m tests.combined` runs it for long."""

from __future__ import annotations

import logging

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.combined.machine import ChatMachine
from tests.combined.reference import Reference


class TestMachine:
    """Random inputs, decisions, stops and deaths on one chat."""

    def test_a_slice(self, caplog: pytest.LogCaptureFixture) -> None:
        """Chain, versions, redo, calls, ledger, audit, inputs and the chat's row are what the reference and the books
        say after each rest, whatever was done and wherever the process died (turns.md, 2 to 7; recovery.md, 12)."""
        caplog.set_level(logging.CRITICAL)
        run_state_machine_as_test(
            ChatMachine,
            settings=settings(
                max_examples=30,
                stateful_step_count=16,
                derandomize=True,
                deadline=None,
                database=None,
                phases=(Phase.generate,),
                suppress_health_check=list(HealthCheck),
            ),
        )

    def test_a_walk(self) -> None:
        """Each thing once, with a rest after it: the same laws, and nothing is left to chance."""
        machine = ChatMachine()
        machine.begin(concurrency="queue", steering=False, compaction=False, auto=True, recovery_hook=False)
        steps = [
            *(lambda kind=kind: machine.move(kind=kind) for kind in ("undo", "redo", "undo", "clear", "redo", "redo")),
            lambda: machine.edit(place=2, plan=[["look"]]),
            lambda: machine.switch(place=2),
            lambda: machine.cut(kind="remove", place=1),
            lambda: machine.cut(kind="rollback", place=0),
            lambda: machine.act_regenerate(place=None, plan=[["pay", "ask"]]),
            lambda: machine.own_action(plan=[], kind="again"),
            lambda: machine.ask_and_decide(calls=["ship", "refund"], place=0, kinds=["edited", "reject"]),
            lambda: machine.die(after=0.0),
            lambda: machine.own_action(plan=[], kind="drop"),
            lambda: machine.take_over(),
            lambda: machine.send_twice(plan=[["slow", "slow_pay"]]),
        ]
        try:
            for step in steps:
                step()
                machine.rest_and_reopen()
            assert machine.laws.resyncs == 0
        finally:
            machine.teardown()


class TestReference:
    """The reference is what the spec says, by hand."""

    def test_edit_and_switch(self) -> None:
        """C16 of turns.md: an edit is a version of the message; a switch shows the former ones with what followed."""
        tree = Reference()
        for id_, role in (("u1", "user"), ("a1", "assistant"), ("u2", "user"), ("a2", "assistant")):
            tree.add(id_, role)
        assert tree.edit("u1") == "user"
        tree.answer("a3")
        assert [n.id for n in tree.chain] == [None, "a3"]
        assert len(tree.siblings(tree.chain[0])) == 2
        assert tree.switch("u1")
        assert [n.id for n in tree.chain] == ["u1", "a1", "u2", "a2"]

    def test_redo(self) -> None:
        """C3 and C6 of turns.md: undo and clear are taken back in turn; an answer empties the stack."""
        tree = Reference()
        tree.send("u1")
        tree.answer("a1")
        tree.undo()
        tree.clear()
        assert (tree.chain, len(tree.redo)) == ([], 1)
        tree.take_back()
        assert [n.id for n in tree.chain] == ["u1", "a1"]
        tree.rollback("u1")
        tree.answer("a2")
        assert (tree.redo, [n.id for n in tree.chain]) == ([], ["u1", "a2"])
