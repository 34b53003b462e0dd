"""The seam between a turn and any model: one step, with every failure as a `ModelError`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from chatnb.errors import ModelError, ModelStreamError
from chatnb.models.port import Model, ModelRequest, StepEnd, StepItem


async def stream_step(model: Model, request: ModelRequest, *, source: Any = None) -> AsyncIterator[StepItem]:
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
    try:
        stream: Any = model.stream(request) if source is None else source
        async with aclosing(_closable(stream)) as items:
            async for item in items:
                yield item
                if isinstance(item, StepEnd):
                    return
    except ModelError:
        raise
    except Exception as error:
        text = str(error)
        raise ModelError(f"Model {model.name!r} failed: {type(error).__name__}{': ' + text if text else ''}") from error
    raise ModelStreamError(
        f"Model {model.name!r} stopped without saying that it was done; the answer is not whole.", kind="incomplete"
    )


async def _closable(stream: Any) -> AsyncGenerator[StepItem, None]:
    """Read any async iterator as a generator, and close the inner one with it if it can be closed."""
    try:
        async for item in stream:
            yield item
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
