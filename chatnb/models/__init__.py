"""The model port and the models.

This folder owns what a turn may ask of a model (`ModelRequest`, `ActionSpec`) and what it gets (`chunks`, `StepEnd`,
`Usage`), and the models themselves. Nothing here knows of turns, chats or the store. Every model is loaded when it is
first named, so that importing this package imports no provider's library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chatnb.models.anthropic_mapping import anthropic_messages
    from chatnb.models.anthropic_model import AnthropicModel
    from chatnb.models.network import forbid_network, is_network_forbidden
    from chatnb.models.offline import OfflineModel
    from chatnb.models.port import (
        EPHEMERAL_OPTIONS,
        ActionSpec,
        Chunk,
        Continuation,
        FinishReason,
        Model,
        ModelMessage,
        ModelRequest,
        StepEnd,
        StepItem,
        is_ephemeral,
    )
    from chatnb.models.pydantic_ai import PydanticAIModel
    from chatnb.models.recorded import RecordedModel
    from chatnb.models.resolve import resolve_model
    from chatnb.models.scripted import Reply, ScriptedModel
    from chatnb.models.step_stream import stream_step
    from chatnb.models.usage import Usage, sum_usage

_HOMES = {
    "EPHEMERAL_OPTIONS": "port",
    "ActionSpec": "port",
    "AnthropicModel": "anthropic_model",
    "Chunk": "port",
    "Continuation": "port",
    "FinishReason": "port",
    "Model": "port",
    "ModelMessage": "port",
    "ModelRequest": "port",
    "OfflineModel": "offline",
    "PydanticAIModel": "pydantic_ai",
    "RecordedModel": "recorded",
    "Reply": "scripted",
    "ScriptedModel": "scripted",
    "StepEnd": "port",
    "StepItem": "port",
    "Usage": "usage",
    "anthropic_messages": "anthropic_mapping",
    "forbid_network": "network",
    "is_ephemeral": "port",
    "is_network_forbidden": "network",
    "resolve_model": "resolve",
    "stream_step": "step_stream",
    "sum_usage": "usage",
}

__all__ = [
    "EPHEMERAL_OPTIONS",
    "ActionSpec",
    "AnthropicModel",
    "Chunk",
    "Continuation",
    "FinishReason",
    "Model",
    "ModelMessage",
    "ModelRequest",
    "OfflineModel",
    "PydanticAIModel",
    "RecordedModel",
    "Reply",
    "ScriptedModel",
    "StepEnd",
    "StepItem",
    "Usage",
    "anthropic_messages",
    "forbid_network",
    "is_ephemeral",
    "is_network_forbidden",
    "resolve_model",
    "stream_step",
    "sum_usage",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
