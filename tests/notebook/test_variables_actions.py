"""The notebook actions that look and insert, and restoring after an undo (spec/notebook.md, section 6)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chatnb.actions import ActionContext
from chatnb.errors import ActionError, InputError
from chatnb.kernel.actions import (
    insert_cell,
    inspect_variable,
    list_variables,
    notebook_actions,
    run_code,
    without_variables,
)
from chatnb.kernel.notebook import ChatNotebook, calls_of
from chatnb.kernel.run_code_names import NamesBefore
from chatnb.kernel.snapshots import Snapshots
from chatnb.messages import UIMessage
from chatnb.policies import Variables

CONTEXT = ActionContext(site="agent", action="x", chat_id="chat", tool_call_id="call_1")


def notebook(namespace: dict[str, Any], **policy: Any) -> ChatNotebook:
    return ChatNotebook("chat", namespace=lambda: namespace, variables=Variables(**policy))


def call(made: Any, **arguments: Any) -> Any:
    return made.function(ctx=CONTEXT, **arguments)


class TestActions:
    def test_the_four(self) -> None:
        """Section 6: `notebook_actions()` gives all four; code needs approval unless it is switched off."""
        assert [made.name for made in notebook_actions()] == [
            "run_code",
            "list_variables",
            "inspect_variable",
            "insert_cell",
        ]
        assert run_code.needs_approval is True
        assert insert_cell.needs_approval is True
        assert notebook_actions(approve_code=False)[0].needs_approval is False
        assert [list_variables.fixed_read, inspect_variable.fixed_read] == [True, True]

    def test_off(self) -> None:
        """Section 5: "off": the variable actions are not offered."""
        offered = without_variables(notebook_actions(), Variables(share="off"))
        assert [made.name for made in offered] == ["run_code", "insert_cell"]


class TestListing:
    def test_names_types_shapes(self) -> None:
        """Section 6: at most 50; private names are none; a glob."""
        kept = notebook({"df": [1, 2], "api_key": "x", "_h": 1, **{f"n{k}": k for k in range(60)}})
        found = call(list_variables)
        assert len(found["variables"]) == 50
        assert found["more"] == 11
        assert call(list_variables, pattern="d*") == {"variables": [{"name": "df", "type": "list", "length": 2}]}
        assert "api_key" not in json.dumps(call(list_variables, pattern="*key*"))
        assert kept.policy.share == "summary"

    def test_private_is_as_unknown(self) -> None:
        """C25 of notebook.md: `inspect_variable` of a secret and of nothing give the same kind of answer."""
        kept = notebook({"api_key": "x"})
        said = []
        for name in ("api_key", "nope"):
            with pytest.raises(ActionError) as caught:
                call(inspect_variable, name=name)
            said.append((caught.value.code, str(caught.value).replace(name, "-"), caught.value.status_code))
        assert said[0] == said[1]
        del kept

    def test_rows(self) -> None:
        """Section 6: columns and rows of a frame, at most 50; texts cut at 200."""
        pd = pytest.importorskip("pandas")
        kept = notebook({"df": pd.DataFrame({"a": range(80), "t": ["z" * 500] * 80, "f": [float("nan")] * 80})})
        found = call(inspect_variable, name="df", rows=999)
        assert len(found["rows"]) == 50
        assert len(found["rows"][0]["t"]) == 200
        assert found["rows"][1] == {"index": 1, "a": 1, "t": found["rows"][0]["t"], "f": None}
        assert call(inspect_variable, name="df", columns=["a"], rows=1)["rows"] == [{"index": 0, "a": 0}]
        with pytest.raises(ActionError, match="Columns: a, t, f"):
            call(inspect_variable, name="df", columns=["b"])
        json.dumps(found, allow_nan=False)
        del kept

    @pytest.mark.parametrize("value", [{"a": 1}, [1, "x" * 900], 5, None, object(), {1, 2}, "text"])
    def test_anything(self, value: Any) -> None:
        """Section 6: any object is described as JSON."""
        kept = notebook({"it": value})
        assert json.dumps(call(inspect_variable, name="it"), allow_nan=False)
        del kept

    def test_share_names(self) -> None:
        """Section 5: "names": name and type alone, in lists and inspections."""
        kept = notebook({"df": [1]}, share="names")
        assert call(list_variables) == {"variables": [{"name": "df", "type": "list"}]}
        assert call(inspect_variable, name="df") == {"name": "df", "type": "list"}
        del kept


class TestInserting:
    def test_a_page_that_can(self) -> None:
        """Section 6: where the view's host can insert, it is inserted; never run."""
        asked: list[tuple[str, str, str]] = []
        kept = notebook({})
        kept.insert_cell = lambda *given: asked.append(given) is None  # type: ignore[func-returns-value]
        assert call(insert_cell, source="1/0") == {"inserted": True, "where": "below"}
        assert asked == [("1/0", "code", "below")]

    def test_nowhere(self) -> None:
        """Section 6: else error `not_supported`, the text offered to be copied."""
        kept = notebook({})
        with pytest.raises(ActionError) as caught:
            call(insert_cell, source="x")
        assert caught.value.code == "not_supported"
        assert caught.value.details == {"source": "x"}
        del kept


class TestSnapshots:
    @pytest.fixture
    def names(self) -> dict[str, Any]:
        return {"df": [1], "gone": [2], "grown": [3]}

    def change(self, names: dict[str, Any], kept: Snapshots, call_id: str, code: str) -> None:
        before = NamesBefore(names, Variables(), keep=True)
        exec(code, names)
        names.pop("__builtins__", None)
        kept.record(call_id, before.values, before.compare(names), names)

    def test_brings_back(self, names: dict[str, Any]) -> None:
        """C29 of notebook.md: rebinds, brings deleted names back, deletes added ones; in place can't be taken back."""
        kept, old = Snapshots(), dict(names)
        self.change(names, kept, "c1", "df = [9]\ndel gone\nnew = 1\ngrown.append(4)")
        assert kept.restorable({"c1"}) == ()
        assert kept.restorable(())[0].names == ("df", "gone", "new")
        assert kept.restorable(())[0].in_place == ("grown",)
        done = kept.restore(names, ())
        assert set(done.restored) == {"df", "gone", "new"}
        assert names["df"] is old["df"]
        assert names["gone"] is old["gone"]
        assert "new" not in names
        assert names["grown"] == [3, 4]
        assert kept.restorable(()) == ()

    def test_bound_anew(self, names: dict[str, Any]) -> None:
        """Section 6: a name that was bound anew since is skipped unless `force`."""
        kept, old = Snapshots(), names["df"]
        self.change(names, kept, "c1", "df = [9]")
        names["df"] = mine = [10]
        assert kept.restore(names, ()).skipped == ("df",)
        assert names["df"] is mine
        assert kept.restore(names, (), force=True).restored == ("df",)
        assert names["df"] is old

    def test_newest_first(self, names: dict[str, Any]) -> None:
        """Section 6: calls off the chain are restored newest first."""
        kept, old = Snapshots(), names["df"]
        for number in (1, 2, 3):
            self.change(names, kept, f"c{number}", f"df = [{number}]")
        assert kept.restore(names, {"c1"}).restored == ("df",)
        assert names["df"] == [1]
        assert kept.restore(names, (), "c1").restored == ("df",)
        assert names["df"] is old
        with pytest.raises(InputError):
            kept.restore(names, (), "c1")

    def test_ten_calls(self, names: dict[str, Any]) -> None:
        """Section 6: the last 10 calls, at most 1 GiB, oldest dropped."""
        kept = Snapshots()
        for number in range(12):
            self.change(names, kept, f"c{number}", f"df = [{number}]")
        assert [item.tool_call_id for item in kept.restorable(())][-1] == "c2"
        small = Snapshots(max_bytes=1000)
        self.change(names, small, "a", "df = 'x' * 5000")
        self.change(names, small, "b", "df = 1")
        assert small.restorable(()) == ()

    def test_calls_of_messages(self) -> None:
        """Section 6: which calls stand on the chain."""
        parts = [
            {"type": "text", "text": "x"},
            {"type": "tool-run_code", "toolCallId": "c1", "state": "input-available"},
        ]
        wire = {"id": "m", "role": "assistant", "parts": [*parts[:1], {**parts[1], "input": {}}]}
        assert calls_of([wire]) == calls_of([UIMessage.from_wire(wire)]) == {"c1"}
