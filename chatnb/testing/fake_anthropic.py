"""A strict local stand-in for Anthropic's API (spec/notebook.md, section 8).

It listens on 127.0.0.1, refuses by the rules R1 to R9 what the API refuses, and fails in all the ways that a network
and a provider fail.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from chatnb.errors import ConfigError
from chatnb.models.scripted import Reply
from chatnb.testing.fake_refusal import Refusal, error_body
from chatnb.testing.fake_rules import MAX_BODY_BYTES, NO_PREFILL, check_request, check_transport, sign_thinking
from chatnb.testing.fake_stream import FakeReply, Plan, make_plan, message_of
from chatnb.testing.fake_strict import StrictModel

__all__ = [
    "NO_PREFILL",
    "FakeAnthropic",
    "FakeReply",
    "Refusal",
    "StrictModel",
    "check_request",
    "check_transport",
    "sign_thinking",
]

_MAX_READ = 4 * MAX_BODY_BYTES


class FakeAnthropic:
    """The server, as a context manager.

    Args:
        replies: What to answer: text, `Reply`, `FakeReply`, an exception, or a function of the request's body, sync or
            async, that returns one. Each serves one accepted request. One function alone answers every request.
        no_prefill: Further names of models that refuse a last message of the assistant.

    Attributes:
        url: The `base_url` to use.
        requests: The bodies that came, refused ones too, without credentials.
        counted: The bodies that came to the counting endpoint.
        refusals: What was refused, in order.
    """

    def __init__(
        self, replies: Sequence[Any] | Callable[[dict[str, Any]], Any] = (), *, no_prefill: Sequence[str] = ()
    ) -> None:
        if isinstance(replies, str | Reply | FakeReply):
            raise ConfigError("FakeAnthropic takes a list of replies; put the one reply into a list.")
        self._replies = replies if callable(replies) else tuple(replies)
        for reply in () if callable(self._replies) else self._replies:
            if not isinstance(reply, str | Reply | FakeReply | BaseException) and not callable(reply):
                raise ConfigError(f"FakeAnthropic takes text, Reply, FakeReply, exceptions and functions: {reply!r}.")
        self._no_prefill = tuple(no_prefill)
        self._lock = threading.Lock()
        self._served = 0
        self._calls = 0
        self._responses = 0
        self.requests: list[Any] = []
        self.counted: list[Any] = []
        self.refusals: list[Refusal] = []
        self.stopping = threading.Event()
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None
        self._url: str | None = None

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), name="fake-anthropic", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._server = None

    @property
    def url(self) -> str:
        """The server's address."""
        if self._url is None:
            raise ConfigError("FakeAnthropic has an address from its `with` block on.")
        return self._url

    def next_id(self) -> str:
        """An id for a response."""
        with self._lock:
            self._responses += 1
            return f"req_fake_{self._responses}"

    def note_body(self, raw: bytes, *, is_count: bool) -> None:
        """Keep a body, whatever becomes of it."""
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError):
            body = raw[:1000].decode("utf-8", "replace")
        with self._lock:
            (self.counted if is_count else self.requests).append(body)

    def refuse(self, refusal: Refusal) -> None:
        """Keep a refusal."""
        with self._lock:
            self.refusals.append(refusal)

    def check(self, body: dict[str, Any]) -> Refusal | None:
        """Rules R2 to R9 for this server."""
        return check_request(body, no_prefill=self._no_prefill)

    def plan(self, body: dict[str, Any], request_id: str) -> Plan:
        """Take the next reply for an accepted request; when all are used up, status 500 says so."""
        with self._lock:
            number = self._served
            self._served += 1
        if callable(self._replies):
            step: Any = self._replies
        elif number < len(self._replies):
            step = self._replies[number]
        else:
            text = f"FakeAnthropic has {len(self._replies)} replies and all are used up: this is request {number + 1}."
            return Plan("status", status=500, error=error_body("api_error", text, request_id))
        try:
            return make_plan(_settle(step, body), body, self._call_id, request_id)
        except ConfigError as error:
            return Plan("status", status=500, error=error_body("api_error", str(error), request_id))

    def _call_id(self) -> str:
        with self._lock:
            self._calls += 1
            return f"toolu_fake_{self._calls}"


def _settle(step: Any, body: dict[str, Any]) -> Any:
    """Call functions until there is a reply; an exception is a reply too."""
    while callable(step) and not isinstance(step, type):
        try:
            step = step(body)
            if asyncio.iscoroutine(step):
                step = asyncio.run(step)
        except Exception as error:  # noqa: BLE001 - what a function raises is its reply
            return error
    if isinstance(step, type) and issubclass(step, BaseException):
        return step()
    return step


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: FakeAnthropic

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a test's output is its own."""

    def do_POST(self) -> None:
        """Answer one request and close."""
        self.close_connection = True
        fake, request_id = self.owner, self.owner.next_id()
        is_count = self.path.split("?")[0].endswith("/v1/messages/count_tokens")
        raw = self.rfile.read(min(int(self.headers.get("content-length") or 0), _MAX_READ))
        fake.note_body(raw, is_count=is_count)
        if not is_count and not self.path.split("?")[0].endswith("/v1/messages"):
            self._send_json(404, error_body("not_found_error", "Not found", request_id), request_id)
            return
        refusal = check_transport({name.lower(): value for name, value in self.headers.items()}, raw)
        body: dict[str, Any] = {} if refusal else json.loads(raw)
        if refusal is None:
            refusal = fake.check({**body, "max_tokens": 2**31} if is_count else body)
        if refusal is not None:
            fake.refuse(refusal)
            self._send_json(refusal.status, refusal.to_body(request_id), request_id)
        elif is_count:
            self._send_json(200, {"input_tokens": -(-len(raw) // 4)}, request_id)
        else:
            self._serve(fake.plan(body, request_id), bool(body.get("stream")), request_id)

    def _serve(self, plan: Plan, is_stream: bool, request_id: str) -> None:
        if plan.kind == "status":
            self._send_json(plan.status, plan.error, request_id, plan.headers)
        elif not is_stream:
            self._send_json(200, message_of(plan), request_id, plan.headers)
        else:
            try:
                self._stream(plan, request_id)
            except OSError:
                return

    def _send_json(
        self, status: int, body: Mapping[str, Any], request_id: str, headers: Mapping[str, str] | None = None
    ) -> None:
        data = json.dumps(body).encode("utf-8")
        self.send_response(status)
        more = {"content-type": "application/json", "request-id": request_id, **(headers or {})}
        for name, value in {**more, "content-length": str(len(data)), "connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, plan: Plan, request_id: str) -> None:
        self.send_response(200)
        more = {"content-type": "text/event-stream; charset=utf-8", "request-id": request_id, **plan.headers}
        for name, value in {**more, "transfer-encoding": "chunked", "connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        for name, data in plan.sent:
            if plan.delay and self.owner.stopping.wait(plan.delay):
                return
            self._write_event(name, data, plan.split)
        if plan.kind == "error":
            self._write_event("error", plan.error, plan.split)
        self._end(plan.kind)

    def _write_event(self, name: str, data: Mapping[str, Any], split: int | None) -> None:
        raw = f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode("utf-8", "replace")
        size = split or len(raw)
        for start in range(0, len(raw), size):
            piece = raw[start : start + size]
            self.wfile.write(f"{len(piece):x}\r\n".encode("ascii") + piece + b"\r\n")
            self.wfile.flush()

    def _end(self, kind: str) -> None:
        if kind == "reset":
            # A linger time of 0 makes the close a reset.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        elif kind == "cut":
            self.wfile.write(b"ff\r\nevent: content_block")
            self.wfile.flush()
        elif kind == "stall":
            self._wait_for_leave()
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _wait_for_leave(self) -> None:
        self.connection.settimeout(0.05)
        while not self.owner.stopping.is_set():
            try:
                if not self.connection.recv(1024):
                    return
            except TimeoutError:
                continue
