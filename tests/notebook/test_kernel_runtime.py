"""`runtime="kernel"` in a real kernel (spec/notebook.md, section 1)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chatnb.kernel import current_host
from tests.notebook.kernel_driver import FUNCTIONS, Kernel

pytestmark = pytest.mark.kernel


@pytest.fixture(scope="module")
def own_loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with Kernel(tmp_path_factory.mktemp("kernel-kind"), kind="kernel") as running:
        assert running.run(FUNCTIONS).status == "ok"
        yield running


class TestExit:
    @pytest.mark.parametrize("kind", ["thread", "kernel"])
    def test_orderly_shutdown(self, tmp_path: Path, kind: str) -> None:
        """Section 1: when the kernel is shut down in order, chats are released."""
        with Kernel(tmp_path, kind=kind) as kernel:
            kernel.run("async def release(): note('released')\nruntime.at_exit(release)")
            kernel.client.shutdown()
            kernel.until("released")


class TestHost:
    def test_kernel(self, own_loop: Kernel) -> None:
        """The host is a kernel, with an id that a restart changes and the user's namespace."""
        cell = own_loop.run(
            "host = current_host()\nprint(host.kind, '@' in host.kernel_id, host.namespace() is get_ipython().user_ns)"
        )
        assert cell.text == "kernel True True\n"

    def test_script(self) -> None:
        """Elsewhere it is a script, with no loop that turns between cells."""
        host = current_host()
        assert (host.kind, host.kernel_id, host.main_loop()) == ("script", None, None)


class TestKernelRuntime:
    def test_no_thread(self, own_loop: Kernel) -> None:
        """Section 1: `runtime="kernel"` works as tasks on the kernel's loop."""
        cell = own_loop.run(
            "print(runtime.kind, [t.name for t in threading.enumerate() if t.name.startswith('chatnb')])"
        )
        assert cell.text == "kernel []\n"

    def test_result_nests(self, own_loop: Kernel) -> None:
        """Section 1: `.result()` nests the kernel's loop at that moment, for sync and async functions."""
        assert own_loop.run(
            "before = asyncio.run\nprint(runtime.wait(ask(quick)).value, asyncio.run is before)"
        ).text == ("5 False\n")
        assert own_loop.run("print(runtime.wait(ask(waits, 0.1)).value)").text == "6\n"
        assert own_loop.run("print((await asyncio.wrap_future(ask(waits))).value)").text == "6\n"

    def test_interrupt_of_a_wait(self, own_loop: Kernel) -> None:
        """Section 1: Ctrl-C ends the wait and no task of the runtime."""
        own_loop.clear()
        cell = own_loop.send(
            "reply = concurrent.futures.Future()\n"
            "async def turn():\n    await asyncio.sleep(0.1); note('waits')\n"
            "    await asyncio.sleep(1); reply.set_result(8)\n"
            "task = runtime.spawn(turn(), name='turn')\nruntime.wait(reply)"
        )
        own_loop.until("waits")
        own_loop.interrupt()
        error = own_loop.finish(cell).error
        assert error is not None
        assert "The reply goes on" in error
        assert own_loop.run("print(runtime.wait(reply))").text == "8\n"

    def test_interrupt_of_a_call(self, own_loop: Kernel) -> None:
        """Section 2: a sync function is interrupted alone, and its timeout is kept though it blocks the loop."""
        own_loop.clear()
        cell = own_loop.send("print(runtime.wait(ask(sleeps)).reason)")
        own_loop.until("in", name="sleeps")
        own_loop.interrupt()
        assert own_loop.finish(cell).text == "interrupted\n"
        assert own_loop.run("print(runtime.wait(ask(sleeps, timeout=0.2)).reason)").text == "timeout\n"

    def test_own_tasks_must_not_block(self, own_loop: Kernel) -> None:
        """Section 1: `.result()` within the runtime's own work raises ChatBusyError at once."""
        cell = own_loop.run(
            "async def hook():\n    runtime.wait(concurrent.futures.Future())\n"
            "try:\n    await runtime.spawn(hook(), name='hook')\nexcept Exception as error:\n"
            "    print(type(error).__name__)"
        )
        assert cell.text == "ChatBusyError\n"
