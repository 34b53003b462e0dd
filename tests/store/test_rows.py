from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from chatnb._clock import now
from chatnb.actions.ports import AuditRow, CallRow, GrantRow
from chatnb.store import (
    IncidentRow,
    InjectedRow,
    InputRow,
    NodeRow,
    OverlayRow,
    Owner,
    TurnRow,
)
from chatnb.store.sql import SqlStore

AT = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)


def node(name: str, ordinal: int, parent: str | None = None, content: str | None = None) -> NodeRow:
    return NodeRow(
        node_id=name, message_id=f"m-{name}", parent=parent, ordinal=ordinal, content_id=content or name, role="user"
    )


def turn(name: str, number: int = 0, **fields: Any) -> TurnRow:
    return TurnRow(**{"id": name, "number": number, "trigger": "submit-message", "state": "running"} | fields)


@pytest.fixture
def token(store: SqlStore, us: Owner) -> str:
    return store.open_chat("c", agent="a", owner=us).token


class TestChat:
    def test_columns(self, store: SqlStore, token: str, us: Owner) -> None:
        """Section 2: every column of the chat's row comes back as it was set."""
        fields: dict[str, Any] = {
            "head": "n",
            "generation": 3,
            "next_number": 7,
            "chat_started": True,
            "redo": ("a", None, "b"),
            "usage": {"input_tokens": 1},
            "body": [1, "ü", None],
            "client_tools": [],
            "terminal": {"text": "\ud800\0"},
            "recovering": True,
            "progress": 9,
        }
        with store.write("c", token) as tx:
            tx.set_chat(**fields)
        row = store.find_chat("c")
        assert row is not None
        assert {name: getattr(row, name) for name in fields} == fields
        assert row.last_owner == us

    def test_unknown_column(self, store: SqlStore, token: str) -> None:
        """A column that the caller must not set is refused."""
        for name in ("id", "owner_token", "heartbeat_at", "colour"):
            with pytest.raises(TypeError, match=name), store.write("c", token) as tx:
                tx.set_chat(**{name: 1})

    def test_newest_first(self, store: SqlStore, us: Owner) -> None:
        """Order comes from the order of making."""
        for name in "zxy":
            store.open_chat(name, agent="a", owner=us)
        assert [row.id for row in store.list_chats()] == ["y", "x", "z"]

    def test_head(self, store: SqlStore, token: str) -> None:
        """Section 2: the head moves only from the node that is expected; None is one."""
        with store.write("c", token) as tx:
            assert tx.move_head(None, "n")
            assert not tx.move_head(None, "m")
            assert not tx.move_head("m", "k")
            assert tx.move_head("n", None)
        assert store.find_chat("c").head is None  # type: ignore[union-attr]


class TestTree:
    def test_nodes(self, store: SqlStore, token: str) -> None:
        """Nodes come back by ordinal, without messages; shown children are set."""
        rows = [node("a", 0), node("b", 1, "a"), replace(node("c", 2, "a"), turn_id="t", kernel_id="k")]
        with store.write("c", token) as tx:
            tx.add_nodes([(row, {"id": row.message_id}) for row in reversed(rows)])
            tx.set_shown({"a": "c"})
        assert store.load_nodes("c") == [replace(rows[0], shown_child="c"), rows[1], rows[2]]
        assert store.load_messages("c", ["a", "c"]) == {"a": {"id": "m-a"}, "c": {"id": "m-c"}}

    def test_shared_content(self, store: SqlStore, token: str) -> None:
        """Nodes share content; replacing a message of one leaves the others' and says the new content id."""
        with store.write("c", token) as tx:
            tx.add_nodes([(node("a", 0, content="x"), {"v": 1})])
            tx.add_nodes([(node("b", 1, content="x"), None)])
            own = tx.set_message("b", {"v": 2})
            assert own != "x"
            assert tx.set_message("b", {"v": 3}) == own
            assert tx.set_message("a", {"v": 4}) == "x"
        assert store.load_messages("c", ["a", "b"]) == {"a": {"v": 4}, "b": {"v": 3}}
        assert [row.content_id for row in store.load_nodes("c")] == ["x", own]

    def test_many(self, store: SqlStore, token: str) -> None:
        """Messages are read in chunks of ids, however many there are."""
        with store.write("c", token) as tx:
            tx.add_nodes([(node(f"n{n}", n), {"n": n}) for n in range(1203)])
        found = store.load_messages("c", [f"n{n}" for n in range(1203)])
        assert found == {f"n{n}": {"n": n} for n in range(1203)}

    def test_delete(self, store: SqlStore, us: Owner, token: str) -> None:
        """Deleting a chat takes all its rows; content that another chat uses stays."""
        other = store.open_chat("d", agent="a", owner=us).token
        with store.write("c", token) as tx:
            tx.add_nodes([(node("a", 0, content="x"), {}), (node("b", 1, content="y"), {})])
            tx.add_turn(turn("t"))
            tx.add_chunks("t", 0, [{}])
            tx.add_input(InputRow(id="i", arrival=0, kind="send", payload={}, generation=0))
            tx.add_call(CallRow(id="k", site="agent", action="f", hash="h", state="done", chat_id="c"))
            tx.add_grant(GrantRow(id="g", site="agent", action="f", hash="h", arguments={}, asked_at=AT, chat_id="c"))
            tx.add_injected(InjectedRow(n=0, messages=[]))
            tx.add_overlay(OverlayRow(node_id="a", step=0, summary="s", message_id="m"))
            tx.put_incident(IncidentRow(id="z", turn_id="t", status="open", kind="retry", cause="x"), None)
        with store.write("d", other) as tx:
            tx.add_nodes([(node("a", 0, content="x"), None)])
        store.release_chat("c", token)
        assert store.delete_chat("c", owner=us)
        with store._reading() as connection:
            for table in ("inputs", "turns", "chunks", "calls", "grants", "injected", "overlays", "incidents"):
                assert connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one() == 0, table
            assert connection.exec_driver_sql("SELECT content_id FROM contents").scalars().all() == ["x"]
            connection.rollback()


class TestInputsAndTurns:
    def test_inputs(self, store: SqlStore, token: str) -> None:
        """Inputs come back by arrival; a move names the states it expects."""
        first = InputRow(
            id="i", arrival=0, kind="send", payload={"a": None}, generation=1, body={}, client_data=1, client_tools=[]
        )
        second = InputRow(id="j", arrival=1, kind="action", payload=None, generation=1, state="held")
        assert store.next_arrival("c") == 0
        with store.write("c", token) as tx:
            tx.add_input(second)
            tx.add_input(first)
            assert store.next_arrival("c") == 2
            assert tx.move_input("j", {"held", "waiting"}, "taken")
            assert not tx.move_input("j", {"held"}, "done")
            assert not tx.move_input("none", {"held"}, "done")
        assert store.load_inputs("c", {"waiting", "taken"}) == [first, replace(second, state="taken")]
        assert store.load_inputs("c", {"held"}) == []

    def test_turns(self, store: SqlStore, token: str) -> None:
        """Turns come back by number with every column; a move is conditional and may set columns."""
        full = turn(
            "t",
            0,
            leaf_id="n",
            assistant_id="m",
            input_id="i",
            attempt=2,
            stop_requested=True,
            stash={"id": 2},
            model_stash="x",
            body={},
            client_data=[],
            client_tools=[1],
            finish_reason="stop",
            error={"stage": "run"},
            usage={},
            started_at=AT,
            ended_at=AT + timedelta(seconds=1),
        )
        with store.write("c", token) as tx:
            tx.add_turn(turn("u", 1))
            tx.add_turn(full)
            assert tx.move_turn("u", {"running"}, "error", error={"stage": "model"}, ended_at=AT)
            assert not tx.move_turn("u", {"running"}, "completed", stash=1)
            tx.set_turn("t", hooks_done=True)
            with pytest.raises(TypeError, match="state"):
                tx.set_turn("t", state="error")
        second = turn("u", 1, state="error", error={"stage": "model"}, ended_at=AT)
        assert store.load_turns("c") == [replace(full, hooks_done=True), second]
        assert store.load_turns("c", {"running"}) == [replace(full, hooks_done=True)]
        assert store.load_unhooked_turns("c") == [second]

    def test_other_chat(self, store: SqlStore, us: Owner, token: str) -> None:
        """A transaction moves rows of its own chat only."""
        other = store.open_chat("d", agent="a", owner=us).token
        with store.write("c", token) as tx:
            tx.add_turn(turn("t"))
        with store.write("d", other) as tx:
            assert not tx.move_turn("t", {"running"}, "error")

    def test_times(self, store: SqlStore, token: str) -> None:
        """Times are UTC whatever zone they came in."""
        elsewhere = AT.astimezone(timezone(timedelta(hours=5)))
        with store.write("c", token) as tx:
            tx.add_turn(turn("t", started_at=elsewhere))
        started = store.load_turns("c")[0].started_at
        assert started == AT
        assert started is not None
        assert started.tzinfo is UTC


class TestChunks:
    def test_order(self, store: SqlStore, token: str) -> None:
        """Batches come back in order; an empty one is nothing; dropped ones are gone."""
        with store.write("c", token, durable=False) as tx:
            tx.add_turn(turn("t"))
            tx.add_turn(turn("u", 1))
            tx.add_chunks("t", 0, [{"n": 0}, {"n": 1}])
            tx.add_chunks("t", 2, [])
            tx.add_chunks("t", 2, [{"n": 2}])
            tx.add_chunks("u", 0, [{"n": 9}])
            tx.drop_chunks({"u"})
        assert store.load_chunks("t") == [{"n": 0}, {"n": 1}, {"n": 2}]
        assert store.load_chunks("u") == []

    @pytest.mark.parametrize(
        "damage",
        [
            'UPDATE chunks SET payload = \'[{"n": 2}, {"n\' WHERE first_seq = 2',
            "UPDATE chunks SET payload = '[{\"n\": 2}]' WHERE first_seq = 2",
            "UPDATE chunks SET payload = '7' WHERE first_seq = 2",
            "UPDATE chunks SET payload = x'ff00' WHERE first_seq = 2",
            "DELETE FROM chunks WHERE first_seq = 2",
        ],
    )
    def test_torn(self, store: SqlStore, token: str, damage: str) -> None:
        """Section 4: a torn, unreadable or missing batch ends the log there."""
        with store.write("c", token) as tx:
            tx.add_turn(turn("t"))
            for first in (0, 2, 4):
                tx.add_chunks("t", first, [{"n": first}, {"n": first + 1}])
        with store._writing(durable=True) as connection:
            connection.exec_driver_sql(damage)
        assert store.load_chunks("t") == [{"n": 0}, {"n": 1}]


class TestBooks:
    def test_calls(self, store: SqlStore, token: str) -> None:
        """Section 2: one row per (message, step, tool call); settled and reused by conditional updates."""
        row = CallRow(
            id="k1",
            site="agent",
            action="f",
            hash="h1",
            state="entered",
            chat_id="c",
            turn_id="t",
            message_id="m",
            step=1,
            tool_call_id="x",
            entered_at=AT,
        )
        done = replace(row, state="done", model_text="ok\ud800", output={"a": [1]}, ended_at=AT)
        with store.write("c", token) as tx:
            assert tx.add_call(row)
            assert not tx.add_call(replace(row, id="k2"))
            assert tx.add_call(replace(row, id="k3", step=2, hash="h2"))
            assert tx.settle_call("k1", {"entered", "unknown"}, done)
            assert not tx.settle_call("k1", {"entered"}, row)
            assert tx.reuse_call("k1", "k3")
            assert not tx.reuse_call("k1", "k4")
            assert [call.id for call in tx.find_calls(chat_id="c", turn_ids={"t"})] == ["k1", "k3"]
            assert [call.id for call in tx.find_calls(chat_id="c", turn_ids={"t"}, hash="h2")] == ["k3"]
            assert tx.find_calls(chat_id="c", turn_ids={"u"}) == []
        assert store.load_calls("c")[0] == replace(done, model_text="ok?", reused_by="k3")
        assert store.load_calls("c", {"u"}) == []

    def test_of_no_chat(self, store: SqlStore) -> None:
        """Section 2: rows that belong to no chat need no lease, and direct calls are never one."""
        row = CallRow(id="k1", site="cli", action="f", hash="h", state="entered")
        line = AuditRow(
            id="l", at=AT, action="f", site="cli", actor_kind="user", status="success", input={"a": 1}, duration_ms=3
        )
        with store.write_free() as books:
            assert books.add_call(row)
            assert books.add_call(replace(row, id="k2"))
            books.add_audit(line)
            books.add_change({"action": "f"})
        assert store.load_audit() == [line]
        assert store.load_audit("c") == []
        assert store.load_changes(0) == [(1, {"action": "f"})]

    def test_grants(self, store: SqlStore, token: str) -> None:
        """Section 2: a grant is consumed once, by a conditional update."""
        row = GrantRow(id="g", site="agent", action="f", hash="h", arguments={"a": 1}, asked_at=AT, chat_id="c")
        with store.write("c", token) as tx:
            tx.add_grant(row)
            tx.add_grant(replace(row, id="g2", expires_at=AT))
            assert tx.move_grant("g", {"pending"}, "approved", hash="h2", arguments={"a": 2}, decided_at=AT)
            assert not tx.move_grant("g", {"pending"}, "rejected")
            assert tx.move_grant("g", {"approved"}, "consumed")
            assert not tx.move_grant("g", {"approved"}, "consumed")
            assert [grant.id for grant in store.load_grants("c", {"pending"})] == ["g2"]
            with pytest.raises(TypeError, match="site"):
                tx.move_grant("g", {"consumed"}, "pending", site="cli")
        expected = replace(row, state="consumed", hash="h2", arguments={"a": 2}, decided_at=AT)
        assert store.load_grants("c", {"consumed", "expired"}) == [expected]
        assert store.find_grant("g") == expected
        assert store.find_grant("none") is None

    def test_prune(self, store: SqlStore, token: str) -> None:
        """Sections 2 and 11: changes stay an hour, ended incidents 7 days; numbers never come again."""
        with store.write("c", token) as tx:
            rows = (("t", "completed", "completed"), ("u", "offered", "interrupted"), ("v", "failed", "interrupted"))
            for name, _, state in rows:
                tx.add_turn(turn(name, ord(name), state=state))
            for name, status, _ in rows:
                tx.put_incident(IncidentRow(id=name, turn_id=name, status=status, kind="retry", cause="x"), None)
            tx.add_change({"n": 1})
            tx.add_change({"n": 2})
        store.prune(now() + timedelta(minutes=59))
        assert store.load_changes(1) == [(2, {"n": 2})]
        store.prune(now() + timedelta(minutes=61))
        assert store.load_changes(0) == []
        assert [row.id for row in store.load_incidents("c")] == ["t", "u", "v"]
        store.prune(now() + timedelta(days=8))
        # A hook that has failed leaves its turn offered: that is no end.
        assert [row.id for row in store.load_incidents("c")] == ["u", "v"]
        with store.write("c", token) as tx:
            tx.move_turn("v", {"interrupted"}, "completed")
        store.prune(now() + timedelta(days=8))
        assert [row.id for row in store.load_incidents("c")] == ["u"]
        with store.write_free() as books:
            books.add_change({"n": 3})
        assert store.load_changes(2) == [(3, {"n": 3})]
        assert store.last_change() == 3


class TestRecoveryRows:
    def test_incidents(self, store: SqlStore, token: str) -> None:
        """Section 7: one incident per turn; claimed and sealed by conditional updates."""
        row = IncidentRow(id="z", turn_id="t", status="open", kind="retry", cause="process_died", created_at=AT)
        with store.write("c", token) as tx:
            tx.add_turn(turn("t"))
            assert tx.put_incident(row, None)
            assert not tx.put_incident(replace(row, id="y"), None)
            assert tx.put_incident(replace(row, status="attempting", quiet_seconds=1.5), {"open"})
            assert not tx.put_incident(replace(row, status="exhausted"), {"open", "offered"})
        assert store.load_incidents("c") == [replace(row, status="attempting", quiet_seconds=1.5)]

    def test_injected(self, store: SqlStore, token: str) -> None:
        """Turns section 8: context stays until the turn that used it has ended."""
        with store.write("c", token) as tx:
            tx.add_turn(turn("t"))
            for n in range(3):
                tx.add_injected(InjectedRow(n=n, messages=[{"n": n}]))
            tx.use_injected([0], "t")
            tx.use_injected([], "t")
        assert [row.used_by for row in store.load_injected("c")] == ["t", None, None]
        with store.write("c", token) as tx:
            tx.move_turn("t", {"running"}, "completed")
        assert [row.n for row in store.load_injected("c")] == [1, 2]
        assert (store.last_injected("c"), store.last_injected("other")) == (2, 0)
        with store.write("c", token) as tx:
            tx.drop_injected()
        assert store.load_injected("c") == []

    def test_overlays(self, store: SqlStore, token: str) -> None:
        """Compactions come back oldest first; one of the same place is replaced."""
        rows = [OverlayRow(node_id=name, step=0, summary=name, message_id="m") for name in "zab"]
        with store.write("c", token) as tx:
            for row in rows:
                tx.add_overlay(row)
            tx.add_overlay(replace(rows[0], summary="new"))
        assert store.load_overlays("c") == [rows[1], rows[2], replace(rows[0], summary="new")]
