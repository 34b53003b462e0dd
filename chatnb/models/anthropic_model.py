"""Claude, through Anthropic's Messages API."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Self

from chatnb.errors import ConfigError, ModelAuthError, ModelError, ModelStreamError
from chatnb.models.anthropic_blocks import compact_json
from chatnb.models.anthropic_errors import (
    MAX_RETRY_AFTER,
    broken_stream,
    is_connection_error,
    is_retried,
    retry_after,
    status_error,
)
from chatnb.models.anthropic_events import BAD_EVENT, EventReader
from chatnb.models.anthropic_request import AnthropicRequest, Thinking, anthropic_request, check_thinking
from chatnb.models.network import check_connection
from chatnb.models.options import check_count, check_flag, check_seconds, check_text
from chatnb.models.port import Chunk, Continuation, ModelRequest, StepEnd, StepItem
from chatnb.models.prices import Price, read_prices, with_cost

KEY_VARIABLE = "ANTHROPIC_API_KEY"
_MAX_COUNTS = 256
_SHORTEST_KEY = 8
_REASONS = {408: "timed out", 409: "conflict", 429: "too many requests", 529: "overloaded"}


class TokenCount(int):
    """A number of tokens.

    Attributes:
        estimated: Whether it is a guess and not the provider's count.
    """

    estimated: bool = False

    def __new__(cls, value: int, *, estimated: bool = False) -> Self:
        """Make the number."""
        made = super().__new__(cls, value)
        made.estimated = estimated
        return made


class _Retryable(Exception):  # noqa: N818 - a signal inside this file
    """The attempt failed before it gave anything, in a way that may pass."""

    def __init__(self, error: ModelError, reason: str, after: float | None = None) -> None:
        super().__init__(reason)
        self.error = error
        self.reason = reason
        self.after = after


class AnthropicModel:
    """A Claude model.

    The SDK is imported at the first request. The key is read when a request is made and held by the SDK's client
    alone, so it is in no repr, pickle or error. A client of our own lives as long as one request: nothing is bound to
    the loop that an earlier one ran on.

    Args:
        name: The model's name, such as `claude-sonnet-4-5`.
        max_tokens: The most that one step may write.
        thinking: None, a budget in tokens (at least 1,024 and below `max_tokens`), or `"adaptive"`.
        cache: Whether to mark the prompt for the provider's cache.
        api_key: The key; None reads `ANTHROPIC_API_KEY`.
        base_url: Another address of the API.
        client: An `anthropic.AsyncAnthropic` to use instead.
        max_retries: How often a request is made again that failed before its first chunk.
        timeout: Seconds to the first chunk, and then between two signs of life.
        prices: Prices that go before the table's, see `chatnb.models.prices.read_prices`.

    Raises:
        ConfigError: An option that can't work.

    Example:
        agent = Agent(AnthropicModel("claude-sonnet-4-5", max_tokens=4000, thinking=2000))
    """

    continuation: Continuation = "user-message"
    accepts_images = True

    def __init__(
        self,
        name: str,
        *,
        max_tokens: int = 8192,
        thinking: Thinking = None,
        cache: bool = True,
        api_key: str | None = None,
        base_url: str | None = None,
        client: Any = None,
        max_retries: int = 3,
        timeout: float = 600,
        prices: Mapping[str, Any] | Sequence[Price] | None = None,
    ) -> None:
        check_text("AnthropicModel(name)", name)
        check_count("max_tokens", max_tokens, least=1, what="tokens")
        check_count("max_retries", max_retries, least=0)
        check_seconds("timeout", timeout, above_zero=True)
        check_flag("cache", cache)
        if api_key is not None and not isinstance(api_key, str):
            raise ConfigError("api_key is a text, or None for that of ANTHROPIC_API_KEY.")
        check_text("base_url", base_url, or_none=True)
        self.name = name
        self.max_tokens = max_tokens
        self.thinking = check_thinking(thinking, max_tokens)
        self.cache = cache
        self.base_url = base_url
        self.max_retries = max_retries
        self.timeout = timeout
        self.prices = read_prices(prices)
        self._given_key: Callable[[], str | None] = lambda: api_key
        self._client = client
        self._counts: dict[str, TokenCount] = {}

    def __repr__(self) -> str:
        return f"AnthropicModel({self.name!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k not in ("_given_key", "_client", "_counts")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _given_key=lambda: None, _client=None, _counts={})

    async def stream(self, request: ModelRequest) -> AsyncIterator[StepItem]:
        """Answer one step; failures before the first chunk are retried.

        Yields:
            Chunks, `None` for each ping, transient `data-retry` chunks before each wait, and the `StepEnd`.

        Raises:
            ModelAuthError: No key, or one that is refused.
            ModelRequestError: The API refuses the request, or the network is forbidden here.
            ModelRateLimitError: Too many requests.
            ModelOverloadedError: The API fails.
            ModelStreamError: The answer broke off, or never began.
        """
        made = self._request(request)
        client, is_own = self._open_client()
        try:
            for attempt in range(self.max_retries + 1):
                try:
                    async with aclosing(self._attempt(client, made)) as items:
                        async for item in items:
                            yield item
                    return
                except _Retryable as failure:
                    wait = _pause(attempt) if failure.after is None else failure.after
                    if attempt == self.max_retries or wait > MAX_RETRY_AFTER:
                        raise failure.error from failure.__cause__
                    yield _retry_chunk(attempt + 1, self.max_retries, wait, failure.reason)
                await request.sleep(wait)
        finally:
            if is_own:
                await client.close()

    async def count_tokens(self, request: ModelRequest) -> TokenCount:
        """Count the tokens of a request, asking the API once for each distinct one.

        Returns:
            The number; `estimated` is True where the API could not be asked.
        """
        body = {
            key: value
            for key, value in self._request(request).body.items()
            if key in ("model", "messages", "system", "thinking", "tool_choice", "tools")
        }
        text = compact_json(body)
        digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
        if digest in self._counts:
            return self._counts[digest]
        try:
            client, is_own = self._open_client()
            try:
                answer = await client.messages.count_tokens(model="", messages=[], extra_body=body)
            finally:
                if is_own:
                    await client.close()
            count = TokenCount(int(answer.input_tokens))
        except Exception:  # noqa: BLE001 - an estimate is better than none, whatever failed
            return TokenCount(-(-len(text) // 4), estimated=True)
        while len(self._counts) >= _MAX_COUNTS:
            self._counts.pop(next(iter(self._counts)))
        self._counts[digest] = count
        return count

    def _request(self, request: ModelRequest) -> AnthropicRequest:
        return anthropic_request(
            self.name, request, max_tokens=self.max_tokens, thinking=self.thinking, cache=self.cache
        )

    def _open_client(self) -> tuple[Any, bool]:
        """The SDK's client, and whether it is ours to close."""
        if self._client is not None:
            check_connection(str(self._client.base_url))
            return self._client.with_options(max_retries=0, timeout=self.timeout), False
        key = (self._given_key() or os.environ.get(KEY_VARIABLE, "")).strip()
        if not key:
            raise ModelAuthError(
                f"No key for {self.name!r}: set the environment variable {KEY_VARIABLE}, "
                'or use Agent("offline"), which needs none.'
            )
        base_url = self.base_url or os.environ.get("ANTHROPIC_BASE_URL") or "https://api.anthropic.com"
        check_connection(base_url)
        from anthropic import AsyncAnthropic

        return AsyncAnthropic(api_key=key, base_url=base_url, max_retries=0, timeout=self.timeout), True

    async def _attempt(self, client: Any, made: AnthropicRequest) -> AsyncGenerator[StepItem, None]:
        """Make the request once. What fails before the first chunk and may pass raises `_Retryable`."""
        deadline = asyncio.get_running_loop().time() + self.timeout
        has_begun = False
        async with aclosing(self._events(client, made)) as events:
            while True:
                try:
                    async with asyncio.timeout_at(None if has_begun else deadline):
                        item = await anext(events)
                except StopAsyncIteration:
                    return
                except TimeoutError as error:
                    if has_begun:
                        raise broken_stream(error) from error
                    timed_out = ModelStreamError(
                        f"The model gave no first chunk within {self.timeout:g} s.", kind="connection_lost"
                    )
                    raise _Retryable(timed_out, "timed out") from error
                except ModelStreamError as error:
                    # Bad JSON in an event is no failure of the connection, so it is not asked again.
                    if has_begun or error.kind != "connection_lost" or isinstance(error.__cause__, BAD_EVENT):
                        raise
                    raise _Retryable(error, "connection lost") from error.__cause__
                except ModelError as error:
                    # An `error` event in place of the first chunk is a status that came late.
                    if has_begun or error.status is None or not is_retried(error.status):
                        raise
                    raise _Retryable(error, _reason(error.status)) from error.__cause__
                has_begun = has_begun or item is not None
                yield item

    async def _events(self, client: Any, made: AnthropicRequest) -> AsyncGenerator[StepItem, None]:
        import anthropic

        request_id: str | None = None
        try:
            # As `extra_body` the body goes byte for byte: the SDK neither rewrites it nor warns into a cell.
            create = client.messages.with_streaming_response.create
            async with create(model="", max_tokens=1, messages=[], stream=True, extra_body=made.body) as response:
                request_id = response.headers.get("request-id")
                reader = EventReader(made.tools, request_id)
                async for event in anthropic.AsyncStream.raw_events(response.http_response):
                    for item in reader.feed(event.event, event.data):
                        yield item
                    if reader.is_done:
                        break
                end, is_plain_cache = reader.end()
                yield self._priced(end, is_plain_cache)
        except ModelError as error:
            raise self._without_key(error, client) from error.__cause__
        except anthropic.APIStatusError as error:
            status = int(error.status_code)
            failed = self._without_key(status_error(status, error.body, error.response.headers, error.message), client)
            if not is_retried(status):
                raise failed from error
            raise _Retryable(failed, _reason(status), retry_after(error.response.headers)) from error
        except Exception as error:
            if isinstance(error, TypeError) and "authentication" in str(error):
                raise ModelAuthError(f"The client given to {self!r} has no key ({KEY_VARIABLE}).") from error
            if not is_connection_error(error):
                raise
            raise broken_stream(error, request_id) from error

    def _priced(self, end: StepEnd, is_plain_cache: bool) -> StepEnd:
        if end.usage is None or not is_plain_cache:
            return end
        return StepEnd(end.finish_reason, with_cost(end.usage, self.name, self.prices))

    @staticmethod
    def _without_key(error: ModelError, client: Any) -> ModelError:
        """The error, with the key taken out of its text should the API have repeated it."""
        key = getattr(client, "api_key", None)
        # A placeholder for a local server ("none") is no secret, and its letters are in many words.
        if isinstance(key, str) and len(key) >= _SHORTEST_KEY and key in str(error):
            error.args = (str(error).replace(key, "[redacted]"),)
        return error


def _reason(status: int) -> str:
    return f"{_REASONS.get(status, 'failing')} ({status})"


def _pause(attempt: int) -> float:
    """Half a second times 2^attempt, at most 8 s, up to a quarter less so that clients do not come back as one."""
    return min(8.0, 0.5 * 2.0**attempt) * random.uniform(0.75, 1.0)


def _retry_chunk(attempt: int, of: int, seconds: float, reason: str) -> Chunk:
    data = {"attempt": attempt, "of": of, "seconds": round(seconds, 3), "reason": reason}
    return {"type": "data-retry", "data": data, "transient": True}
