"""A scripted model that holds every request against the rules of Anthropic's API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from chatnb.errors import ModelRequestError
from chatnb.models.anthropic_request import Thinking, anthropic_request
from chatnb.models.port import ModelRequest, StepItem
from chatnb.models.scripted import ScriptedModel, Step
from chatnb.testing.fake_rules import check_request


class StrictModel(ScriptedModel):
    """Like `ScriptedModel`, but each request is first mapped as `AnthropicModel` does and checked by R2 to R9.

    So a test that uses it proves that every history it made is one that the API accepts, without HTTP.

    Args:
        steps: As for `ScriptedModel`.
        model: The model's name in the bodies.
        thinking: As for `AnthropicModel`.
        no_prefill: Further names of models that refuse a last message of the assistant.
        more: Further options of `ScriptedModel`.

    Attributes:
        bodies: The bodies that were made.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        *,
        model: str = "claude-sonnet-4-5",
        thinking: Thinking = None,
        no_prefill: Sequence[str] = (),
        **more: Any,
    ) -> None:
        super().__init__(steps, **{"name": "strict", **more})
        self.model = model
        self.thinking = thinking
        self.no_prefill = tuple(no_prefill)
        self.bodies: list[dict[str, Any]] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[StepItem]:
        """Give the next step.

        Raises:
            ModelRequestError: The API would refuse the request; the text has the rule.
        """
        body = anthropic_request(self.model, request, max_tokens=8192, thinking=self.thinking).body
        self.bodies.append(body)
        refusal = check_request(body, no_prefill=self.no_prefill)
        if refusal is not None:
            raise ModelRequestError(f"The API would refuse this request: {refusal.message}", status=refusal.status)
        async for item in super().stream(request):
            yield item
