"""The seam between a turn and any model: one step, with every failure as a `ModelError`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from chatnb.errors import ModelError, ModelStreamError
from chatnb.models.port import Model, ModelRequest, StepEnd, StepItem
from chatnb.models.redaction import Redactor
from chatnb.models.usage import Usage
from chatnb.runtime.contain import is_being_cancelled, running_task


async def stream_step(model: Model, request: ModelRequest, *, source: Any = None) -> AsyncGenerator[StepItem, None]:
    """Stream one step of a model, held to the port's rules.

    Args:
        model: Any model.
        request: What it is asked.
        source: An iterator to read instead of `model.stream(request)`, such as what `retrieve` gave.

    Yields:
        What the model yields, up to and with its `StepEnd`. What comes after that is not read.

    Raises:
        ModelStreamError: The stream ended without a `StepEnd` (`kind="incomplete"`).
        ModelError: The model's own, or any other exception wrapped, with the raw one as cause.
    """
    here = running_task()
    is_asked = True
    try:
        stream: Any = model.stream(request) if source is None else source
        items: Any = stream if isinstance(stream, AsyncGenerator) else _closable(stream)
        async with aclosing(items):
            async for item in items:
                is_asked = False
                if isinstance(item, StepEnd):
                    yield _checked_end(item)
                    return
                yield item
                is_asked = True
    except ModelError:
        raise
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
            raise
        if isinstance(error, GeneratorExit) and not (is_asked and here is not None and running_task() is here):
            raise  # this generator is being closed
        text = str(Redactor().redact(str(error)))
        raise ModelError(f"Model {model.name!r} failed: {type(error).__name__}{': ' + text if text else ''}") from error
    raise ModelStreamError(
        f"Model {model.name!r} stopped without saying that it was done; the answer is not whole.", kind="incomplete"
    )


def _checked_end(end: StepEnd) -> StepEnd:
    """Refuse an end whose numbers could not be added up; an end without a reason has an unknown one."""
    usage = end.usage
    if usage is not None and not isinstance(usage, Usage):
        raise TypeError(f"StepEnd(usage=) takes a chatnb.Usage or None, not {type(usage).__name__}")
    if usage is not None:
        usage.check()
    return end if isinstance(end.finish_reason, str) else replace(end, finish_reason="other")


async def _closable(stream: Any) -> AsyncGenerator[StepItem, None]:
    """Read any async iterator as a generator, and close the inner one with it if it can be closed."""
    try:
        async for item in stream:
            yield item
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
