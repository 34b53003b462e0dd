"""From what a person writes as `model=` to a `Model`."""

from __future__ import annotations

import os

from chatnb.errors import ConfigError
from chatnb.models.port import Model

DEFAULT_ANTHROPIC = "claude-sonnet-4-5"
KNOWN_NAMES = '"offline" (the embedded model) and names that start with "claude", such as "claude-sonnet-4-5"'


def resolve_model(value: Model | str | None = None) -> Model:
    """Find the model that a value means.

    Args:
        value: A model, which is given back; a name; or None for the Anthropic default model if `ANTHROPIC_API_KEY` is
            set and the offline model otherwise.

    Raises:
        ConfigError: An unknown name, or no model at all. The text lists what is known.
    """
    if value is None:
        name = DEFAULT_ANTHROPIC if os.environ.get("ANTHROPIC_API_KEY", "").strip() else "offline"
        return resolve_model(name)
    if isinstance(value, str):
        return _by_name(value)
    if isinstance(value, type):
        raise ConfigError(f"model= got the class {value.__name__}; make an object of it: {value.__name__}(...).")
    if isinstance(getattr(value, "name", None), str) and callable(getattr(value, "stream", None)):
        return value
    raise ConfigError(
        f"model= takes a model, which has `name` and `stream(request)`, or a name; got {type(value).__name__}. "
        f"Known names: {KNOWN_NAMES}."
    )


def _by_name(name: str) -> Model:
    if name == "offline":
        from chatnb.models.offline import OfflineModel

        return OfflineModel()
    if name.startswith("claude"):
        from chatnb.models.anthropic_model import AnthropicModel

        return AnthropicModel(name)
    raise ConfigError(
        f"Unknown model {name!r}. Known names: {KNOWN_NAMES}. For other providers pass a model object, "
        "for example chatnb.models.PydanticAIModel(...)."
    )
