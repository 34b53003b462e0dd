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
    raise ConfigError(f"Unknown model {name!r}. Known names: {KNOWN_NAMES}. {_hint(name)}")


def _hint(name: str) -> str:
    """What to write instead, in one sentence."""
    vendor, _, model = name.partition(":" if ":" in name else "/")
    if model.startswith("claude"):
        return f"Leave the vendor out: {model!r}."
    if vendor and model:
        return f"For other providers pass a model object: chatnb.models.PydanticAIModel({f'{vendor}:{model}'!r})."
    import difflib

    start = name.lower().partition("-")[0]
    near = difflib.get_close_matches(start, ("claude", "offline"), 1, 0.8)
    if near:
        right = near[0] + name[len(start) :]
        return f"Did you mean {right!r}?"
    if start in ("sonnet", "opus", "haiku"):
        return f"Did you mean {'claude-' + name.lower()!r}?"
    return (
        "For other providers pass a model object that names its vendor: "
        f"chatnb.models.PydanticAIModel({f'{_vendor_of(start)}:{name}'!r})."
    )


def _vendor_of(start: str) -> str:
    return {"gemini": "google", "mistral": "mistral", "grok": "xai", "deepseek": "deepseek"}.get(start, "openai")
