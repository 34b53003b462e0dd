"""A front end without a page: runs cells in a real kernel, and talks to a panel's comm as JupyterLab does, or VS Code.

JupyterLab makes a subshell for each comm target and names it in the header of the comm's messages; hosts without
subshells name none. Everything that a kernel publishes is kept in the order in which it came, so that it can be told
whether an answer came before or after the end of a cell.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from tests.hosts.environments import ROOT, write_kernelspec

DEADLINE = 15.0


class FrontEnd:
    """A notebook that is open on a kernel.

    Args:
        python: The kernel's Python.
        folder: A folder of the test's own.
    """

    def __init__(self, python: Path, folder: Path) -> None:
        write_kernelspec(python, "regime", folder / "kernels")
        specs = KernelSpecManager(kernel_dirs=[str(folder / "kernels")])
        self._manager = KernelManager(kernel_name="regime", kernel_spec_manager=specs)
        self._folder = folder
        self.published: list[dict[str, Any]] = []
        self.has_subshells = False

    def __enter__(self) -> Self:
        self._manager.start_kernel(extra_arguments=["--HistoryManager.enabled=False"], cwd=str(self._folder))
        self.client = self._manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=DEADLINE)
        features = self.client.kernel_info(reply=True, timeout=DEADLINE)["content"].get("supported_features", [])
        self.has_subshells = "kernel subshells" in features
        self.run(f"import sys; sys.path.insert(0, {str(ROOT)!r})")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()

    # --- cells --------------------------------------------------------------------------------------------------

    def start(self, code: str) -> str:
        """Run a cell and do not wait for its end; returns once it has begun."""
        id = str(self.client.execute(code))
        self.wait_for(lambda message: is_of(message, id, "execute_input"))
        return id

    def finish(self, id: str) -> str:
        """Wait for the end of a cell, which must not fail; returns what it printed."""
        self.wait_for(lambda message: is_end(message, id))
        for message in self.published:
            if is_of(message, id, "error"):
                raise AssertionError("\n".join(message["content"]["traceback"]))
        return "".join(message["content"]["text"] for message in self.published if is_of(message, id, "stream"))

    def run(self, code: str) -> str:
        """Run a cell to its end."""
        return self.finish(self.start(code))

    def show(self, code: str) -> str:
        """Run a cell that shows a panel, and return the id of the panel's comm."""
        known = len(self.published)
        self.run(code)
        opened = [m["content"] for m in self.published[known:] if m["msg_type"] == "comm_open"]
        return next(str(c["comm_id"]) for c in opened if c["data"]["state"].get("_model_module") == "anywidget")

    # --- what is published --------------------------------------------------------------------------------------

    def wait_for(self, wanted: Callable[[dict[str, Any]], bool], since: int = 0) -> int:
        """Wait until something is published, and return its place in the order."""
        place, deadline = since, time.monotonic() + DEADLINE
        while True:
            while place < len(self.published):
                if wanted(self.published[place]):
                    return place
                place += 1
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("this was never published")
            self.published.append(self.client.get_iopub_msg(timeout=left))

    def look(self, seconds: float) -> None:
        """Take in what is published meanwhile: for what must not come."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if self.client.iopub_channel.socket.poll(int(left * 1000) + 1):
                self.published.append(self.client.get_iopub_msg(timeout=1))

    # --- the comm -----------------------------------------------------------------------------------------------

    def new_subshell(self) -> str | None:
        """Make a subshell, where the kernel can."""
        if not self.has_subshells:
            return None
        message = self.client.session.msg("create_subshell_request", {})
        self.client.control_channel.send(message)
        while True:
            reply = self.client.get_control_msg(timeout=DEADLINE)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                return str(reply["content"]["subshell_id"])

    def send_comm(self, comm_id: str, data: dict[str, Any], subshell: str | None) -> None:
        """Send a message on a comm."""
        message = self.client.session.msg("comm_msg", {"comm_id": comm_id, "data": data})
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)


class PanelPage:
    """The page's end of a panel: says hello, commands, and reads frames.

    Args:
        front_end: The notebook.
        comm_id: The panel's comm.
        subshell: Where commands go; None: the main shell, as in a host without subshells.
    """

    def __init__(self, front_end: FrontEnd, comm_id: str, subshell: str | None) -> None:
        self._front_end = front_end
        self._comm_id = comm_id
        self._subshell = subshell
        self._numbers = count(1)
        self._epoch = ""
        self.nonce = ""

    def hello(self) -> None:
        """Say hello and take the answer."""
        since = len(self._front_end.published)
        self.send("hello", versions=[1])
        place = self._front_end.wait_for(lambda m: self._frame(m).get("type") == "reset", since)
        self._epoch = self._frame(self._front_end.published[place])["epoch"]
        self.nonce = next(f["nonce"] for f in self.frames() if f["type"] == "secret")

    def send(self, type: str, **fields: Any) -> str:
        """Send a command; returns its id."""
        id = f"c{next(self._numbers)}"
        content = {"v": 1, "epoch": self._epoch, "view": "page", "id": id, "type": type, **fields}
        self._front_end.send_comm(self._comm_id, {"method": "custom", "content": content}, self._subshell)
        return id

    def update(self, **state: Any) -> None:
        """Send a state update, as no panel ever does."""
        self._front_end.send_comm(self._comm_id, {"method": "update", "state": state}, self._subshell)

    def answered_at(self, id: str) -> int:
        """Wait for the answer to a command, and return its place in the order."""
        return self._front_end.wait_for(lambda m: self._frame(m).get("type") == "ack" and self._frame(m)["id"] == id)

    def answer(self, id: str) -> dict[str, Any]:
        """Wait for the answer to a command, and return it."""
        return self._frame(self._front_end.published[self.answered_at(id)])

    def ask(self, type: str, **fields: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        return self.answer(self.send(type, **fields))

    def frames(self) -> list[dict[str, Any]]:
        """The frames that have come."""
        return [frame for frame in map(self._frame, self._front_end.published) if frame]

    def wait_for_state(self, since: int, /, **wanted: Any) -> int:
        """Wait until a frame tells of a state, and return its place in the order."""

        def tells(message: dict[str, Any]) -> bool:
            states = _states(self._frame(message))
            return any(all(s.get(key) == value for key, value in wanted.items()) for s in states)

        return self._front_end.wait_for(tells, since)

    def wait_for_pending(self) -> dict[str, Any]:
        """Wait until something waits for a person, and return the newest that does."""
        found: dict[str, Any] = {}

        def looked(message: dict[str, Any]) -> bool:
            for items in _pending(self._frame(message)):
                found.clear()
                found.update(items[-1] if items else {})
            return bool(found)

        self._front_end.wait_for(looked)
        return found

    def state(self) -> dict[str, Any]:
        """The state as the frames so far tell it."""
        merged: dict[str, Any] = {}
        for frame in self.frames():
            for state in _states(frame):
                merged |= state
        return merged

    def _frame(self, message: dict[str, Any]) -> dict[str, Any]:
        content = message["content"]
        if message["msg_type"] != "comm_msg" or content["comm_id"] != self._comm_id:
            return {}
        frame: dict[str, Any] = content["data"].get("content") or {}
        return frame if frame.get("to", "page") == "page" else {}


def is_of(message: dict[str, Any], id: str, kind: str) -> bool:
    """Whether a message of a kind belongs to a cell."""
    return bool(message["msg_type"] == kind and message["parent_header"].get("msg_id") == id)


def is_end(message: dict[str, Any], id: str) -> bool:
    """Whether a message tells that a cell has ended."""
    return is_of(message, id, "status") and message["content"]["execution_state"] == "idle"


def _states(frame: dict[str, Any]) -> list[dict[str, Any]]:
    if frame.get("type") == "reset":
        return [frame["snapshot"].get("state") or {}]
    return [op["state"] for op in frame.get("ops", ()) if op["op"] == "state"]


def _pending(frame: dict[str, Any]) -> list[list[dict[str, Any]]]:
    if frame.get("type") == "reset":
        return [frame["snapshot"].get("pending") or []]
    return [op["items"] for op in frame.get("ops", ()) if op["op"] == "pending"]
