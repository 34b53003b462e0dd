"""A submission for an input that is made a little later, once its body is there (spec/widget.md, section 1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from .._json import JsonValue
from ..turns import Outcome, Submission, TurnError

if TYPE_CHECKING:
    from ..runtime import Runtime


class Relay(Submission):
    """Stands for another submission, which does not exist yet."""

    _inner: Submission | None = None
    _is_stopped = False

    @classmethod
    def start(
        cls,
        runtime: Runtime,
        chat_id: str,
        make_body: Callable[[], Awaitable[JsonValue]],
        submit: Callable[..., Submission],
    ) -> Relay:
        """Return the handle at once; make the body on the runtime, then the input.

        Args:
            runtime: The chat's.
            chat_id: The chat.
            make_body: Returns the body. What it raises is the outcome.
            submit: Makes the input; takes `body`.
        """
        relay = cls(runtime, chat_id, lambda _: runtime.post(relay._stop_inner))
        runtime.spawn(relay._run(make_body, submit), name="an input whose body is being made")
        return relay

    @property
    def admitted(self) -> bool:
        """The input's row is written."""
        return self._inner is not None and self._inner.admitted

    async def _run(self, make_body: Callable[[], Awaitable[JsonValue]], submit: Callable[..., Submission]) -> None:
        try:
            body = await make_body()
            if self._is_stopped:
                self._settle(Outcome(status="skipped"))
                return
            inner = self._inner = submit(body=body)
        except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001 - a person's function
            self._settle(Outcome(status="error", error=TurnError.of("input", error)))
            return
        self._input = inner._input
        async for chunk in inner:
            self._log.append(chunk)
        self._settle(await inner)

    def _stop_inner(self) -> None:
        self._is_stopped = True
        if self._inner is not None:
            self._inner.stop()
