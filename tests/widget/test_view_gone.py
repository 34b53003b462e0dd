"""What is gone: messages that a command is about, and chats that somebody has taken over (spec/widget.md, 3.2, 3.3)."""

from __future__ import annotations

import pytest

from chatnb.errors import LeaseLostError
from chatnb.store import Owner

from .shown import add, quiet, shown


class TestMessagesThatAreGone:
    async def test_are_not_found(self) -> None:
        """3.2: `not_found` at the control, before anything is written: no error state, what was typed stays there."""
        async with shown("a", "b", actions=[add]) as view:
            await view.hello()
            await view.widget.send_message("x")
            await quiet(view)
            for kind, fields in (
                ("edit", {"text": "long thought"}),
                ("regenerate", {}),
                ("rollback", {}),
                ("remove", {}),
                ("switch", {}),
            ):
                answer = await view.command(kind, messageId="msg-gone", **fields)
                assert answer["error"]["code"] == "not_found", kind
            await quiet(view)
            assert (view.widget.status, view.widget.error, len(view.widget.messages)) == ("ready", None, 2)
            own = view.widget.messages[0].id
            assert (await view.command("edit", messageId=own, text="y"))["ok"]
            await quiet(view)
            assert [m.text for m in view.widget.messages] == ["y", "b"]

    async def test_a_chat_action_that_fails_has_no_retry(self) -> None:
        """5.6: Retry answers again; a chat action that failed itself left nothing to be answered."""
        async with shown("a") as view:
            await view.hello()
            assert (await view.mock.chat.act({"type": "nobody"})).status == "error"
            await quiet(view)
            states = [op["state"] for f in view.sent for op in f.get("ops", ()) if op["op"] == "state"]
            assert [state["error"]["retry"] for state in states if state.get("error")] == [False]


class TestTakenOver:
    async def test_take_over_is_for_a_lost_lease(self) -> None:
        """3.2: `takeOver` only after a lost lease: a chat that is here stays, one that is closed is not opened."""
        async with shown("a") as view:
            await view.hello()
            chat = view.widget.chat
            assert (await view.command("takeOver"))["ok"]
            assert view.widget.chat is chat
            chat.close()
            await quiet(view)
            answer = await view.command("takeOver")
            assert answer["error"]["code"] == "closed"
            assert view.widget.chat is chat

    async def test_the_view_says_who_took_over(self) -> None:
        """3.3 and recovery.md 3: the deposed owner's views say who took over, found out by a heartbeat or a write."""
        for find_out in ("heartbeat", "write"):
            async with shown("a") as view:
                composition = view.mock.chat._composition
                await view.hello()
                await view.widget.send_message("x")
                chat = view.mock.chat
                owner = Owner(host="box/1", pid=7, start="now", kernel_id=None, label="b.ipynb")
                chat._engine.store.open_chat(chat.id, agent="other", owner=owner, take_over=True)
                if find_out == "heartbeat":  # a store in memory has none of its own
                    composition._keep_beating(chat._engine.store)
                    await view.mock.clock.advance(30)
                else:
                    assert (await chat.send("more")).status == "error"
                await quiet(view)
                states = [op["state"] for f in view.sent for op in f.get("ops", ()) if op["op"] == "state"]
                closed = [state["closed"] for state in states if state.get("closed")]
                assert closed == [{"reason": "lease-lost", "by": "b.ipynb (process 7 on box)"}]
                with pytest.raises(LeaseLostError, match=r"b\.ipynb \(process 7 on box\)"):
                    view.widget.send_message("x")
