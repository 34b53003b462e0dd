"""`chat.objects`: names, limits, what is lost and why (spec/notebook.md, section 4)."""

from __future__ import annotations

import gc
import threading

import pytest

from chatnb.errors import ObjectLostError
from chatnb.kernel.objects import ChatObjects
from chatnb.kernel.objects_held import Meaning
from chatnb.kernel.objects_size import estimate_bytes
from chatnb.policies import Objects


class Thing:
    """An object that can be held weakly."""


def fill(objects: ChatObjects, count: int, action: str = "f") -> list[str | None]:
    return [objects.keep(Thing(), action=action, tool_call_id=f"{action}-call-{n}") for n in range(1, count + 1)]


class TestNames:
    def test_counts_per_action(self) -> None:
        """Section 4: `ACTION_N`, N from 1 per action and chat; `-` becomes `_`."""
        objects = ChatObjects()
        thing = Thing()
        names = [objects.keep(thing, action=a, tool_call_id=None) for a in ("f", "g", "f", "my-act")]
        assert names == ["f_1", "g_1", "f_2", "my_act_1"]
        assert objects["f_2"] is thing

    def test_passes_taken_names_over(self) -> None:
        """Section 4: a name that the user's namespace already holds is passed over."""
        objects = ChatObjects(namespace=lambda: {"f_1": 1, "f_3": 1})
        assert fill(objects, 2) == ["f_2", "f_4"]

    def test_none_is_not_kept(self) -> None:
        """Section 4: every return value that is not None is kept."""
        objects = ChatObjects()
        assert objects.keep(None, action="f", tool_call_id="c") is None
        assert len(objects) == 0
        assert objects.last is None
        assert objects.keep(0, action="f", tool_call_id="d") == "f_1"

    def test_reads_by_tool_call_id(self) -> None:
        """Section 4: a mapping by name or tool call id; iterating gives names."""
        objects = ChatObjects()
        thing = Thing()
        objects.keep(thing, action="f", tool_call_id="call-9")
        assert objects["call-9"] is thing
        assert "call-9" in objects
        assert "f_1" in objects
        assert list(objects) == objects.names() == ["f_1"]
        assert objects.last is thing
        assert objects.get("nope") is None

    def test_is_read_only(self) -> None:
        """Section 4: read-only from outside."""
        with pytest.raises(TypeError):
            ChatObjects()["x"] = 1

    def test_unknown_names_the_closest(self) -> None:
        """Section 4: unknown: `KeyError`, closest names."""
        objects = ChatObjects()
        fill(objects, 1, "sales")
        with pytest.raises(KeyError, match="sales_1") as caught:
            objects["sale_1"]
        assert not isinstance(caught.value, ObjectLostError)


class TestLimits:
    def test_keeps_what_the_user_holds(self) -> None:
        """C20 of notebook.md: of 60 results the one that the user holds is there; one that nobody holds is gone."""
        objects = ChatObjects()
        mine = Thing()
        objects.keep(mine, action="f", tool_call_id="c1")
        fill(objects, 59)
        gc.collect()
        assert objects["f_1"] is mine
        with pytest.raises(ObjectLostError) as caught:
            objects["f_2"]
        assert caught.value.reason == "evicted"
        assert isinstance(caught.value, KeyError)
        assert "f_11" in objects
        assert "f_10" not in objects
        assert len(objects) == 51
        assert "f_2" in objects.lost

    def test_plain_data_is_evicted_at_once(self) -> None:
        """Section 4: older ones weakly where the type allows; a list does not."""
        objects = ChatObjects(Objects(max_items=1))
        kept = [1]
        objects.keep(kept, action="f", tool_call_id=None)
        objects.keep([2], action="f", tool_call_id=None)
        with pytest.raises(ObjectLostError):
            objects["f_1"]

    def test_bytes_are_limited(self) -> None:
        """Section 4: at most max_bytes are held strongly; a result that is too large pushes no other out."""
        objects = ChatObjects(Objects(max_bytes=10_000))
        for size in (4_000, 4_000, 4_000, 50_000):
            objects.keep(b"x" * size, action="f", tool_call_id=None)
        assert objects.names() == ["f_2", "f_3"]

    def test_pinned_ones_count_and_stay(self) -> None:
        """Section 4: pinned ones count and stay."""
        objects = ChatObjects(Objects(max_items=2))
        objects.keep(Thing(), action="f", tool_call_id=None)
        objects.pin("f_1")
        for _ in range(4):
            objects.keep([], action="g", tool_call_id=None)
        assert objects.names() == ["f_1", "g_4"]

    def test_the_same_object_counts_once(self) -> None:
        """Section 4: the bytes held are those of the objects, not of their names."""
        objects = ChatObjects(Objects(max_bytes=10_000))
        data = b"x" * 6_000
        for _ in range(3):
            objects.keep(data, action="f", tool_call_id=None)
        assert len(objects) == 3

    def test_estimates_are_quick(self) -> None:
        """Section 4: estimated in at most 10 ms per object; unknown types count 0."""
        assert estimate_bytes(Thing()) == 0
        nested = [["x" * 100] * 100] * 1000
        assert 5_000_000 < estimate_bytes(nested) < 20_000_000
        pandas = pytest.importorskip("pandas")
        assert estimate_bytes(pandas.DataFrame({"a": range(1000)})) >= 8000


class TestLosing:
    def test_clear_and_delete(self) -> None:
        """Section 4: `clear()` and `del` let go; reason "cleared"; numbers are not given again."""
        objects = ChatObjects()
        fill(objects, 3)
        del objects["f_1"]
        objects.pin("f_2")
        objects.clear()
        assert objects.names() == []
        for name in ("f_1", "f_2"):
            with pytest.raises(ObjectLostError) as caught:
                objects[name]
            assert caught.value.reason == "cleared"
        assert fill(objects, 1) == ["f_4"]

    def test_a_new_kernel(self) -> None:
        """Section 9 of recovery.md: former names are lost; reading one names the action and its call id."""
        objects = ChatObjects()
        objects.forget_all({"f_1": ("f", "call-7")})
        assert "f_1" in objects.lost
        for key in ("f_1", "call-7"):
            with pytest.raises(ObjectLostError, match=r"f \(call call-7\)") as caught:
                objects[key]
            assert caught.value.reason == "kernel_restarted"
        assert fill(objects, 1) == ["f_2"]

    def test_a_fork_shares_objects(self) -> None:
        """Section 9: objects are shared by name with a fork, which goes its own way."""
        objects = ChatObjects()
        thing = Thing()
        objects.keep(thing, action="f", tool_call_id="c")
        fork = objects.fork()
        objects.clear()
        assert fork["f_1"] is thing
        assert fork["c"] is thing

    def test_threads(self) -> None:
        """Section 4: many threads may keep at once; every name is given once."""
        objects = ChatObjects(Objects(max_items=1000))
        names: list[str | None] = []
        threads = [threading.Thread(target=lambda: names.extend(fill(objects, 50))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(names)) == 200


class TestMeaning:
    def test_same_object(self) -> None:
        """Section 5: equal tokens mean the same object; a dead one equals nothing."""
        thing: Thing | None = Thing()
        token = Meaning(thing)
        assert token == Meaning(thing)
        assert token != Meaning(Thing())
        thing = None
        gc.collect()
        assert token != Meaning(Thing())
        assert Meaning([1]) != Meaning([1])
