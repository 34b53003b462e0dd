"""What models cost, in US dollars per million tokens. The one place for prices.

A price is found by the longest prefix of the model's name that is the same version. A model that is not here has an
unknown cost, which is not 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chatnb.errors import ConfigError
from chatnb.models.usage import Usage

_SOURCE = "https://platform.claude.com/docs/en/about-claude/pricing"
_FIELDS = ("input", "output", "cache_read", "cache_write")


@dataclass(frozen=True)
class Price:
    """One row of the table.

    Attributes:
        prefix: How the names of the models begin that it holds for.
        input: Dollars per million tokens read, beside the cache.
        output: Per million written.
        cache_read: Per million read from the cache.
        cache_write: Per million written to the cache that lasts five minutes.
        checked: The date of the row, ISO.
        source: The page that it was read from.
        prompt_limit: The longest prompt, in tokens, that it holds for; a longer one has an unknown cost.
    """

    prefix: str
    input: float
    output: float
    cache_read: float
    cache_write: float
    checked: str = ""
    source: str = ""
    prompt_limit: int | None = None


def _row(prefix: str, read: float, write: float, hit: float, store: float, limit: int | None = None) -> Price:
    return Price(prefix, read, write, hit, store, checked="2026-11-30", source=_SOURCE, prompt_limit=limit)


PRICES: tuple[Price, ...] = (
    _row("claude-fable-5-1", 10, 50, 0.25, 12.5),
    _row("claude-fable-5", 10, 50, 1, 12.5),
    _row("claude-mythos-5-1", 10, 50, 0.25, 12.5),
    _row("claude-mythos-5", 10, 50, 1, 12.5),
    _row("claude-opus-5-5", 4, 20, 0.2, 5),
    _row("claude-opus-5", 5, 25, 0.5, 6.25),
    _row("claude-opus-4-8", 5, 25, 0.5, 6.25),
    _row("claude-opus-4-7", 5, 25, 0.5, 6.25),
    _row("claude-opus-4-6", 5, 25, 0.5, 6.25),
    _row("claude-opus-4-5", 5, 25, 0.5, 6.25),
    _row("claude-opus-4-1", 15, 75, 1.5, 18.75),
    _row("claude-opus-4-0", 15, 75, 1.5, 18.75),
    _row("claude-opus-4", 15, 75, 1.5, 18.75),
    _row("claude-sonnet-5-5", 2, 10, 0.1, 2.5),
    _row("claude-sonnet-5", 2, 10, 0.2, 2.5),
    _row("claude-sonnet-4-6", 3, 15, 0.3, 3.75),
    _row("claude-sonnet-4-5", 3, 15, 0.3, 3.75),
    _row("claude-sonnet-4-0", 3, 15, 0.3, 3.75),
    _row("claude-sonnet-4", 3, 15, 0.3, 3.75),
    _row("claude-haiku-5-5", 0.1, 0.5, 0.01, 0.125, limit=100_000),
    _row("claude-haiku-4-5", 1, 5, 0.1, 1.25),
)
# What may stand behind a row's name: a date or an alias. `-2` would be another version, whose price nobody has told.
_SAME_MODEL = re.compile(r"(?:[-@](?!\d{1,2}(?:\D|\Z)).*)?", re.DOTALL)


def read_prices(prices: Mapping[str, Any] | Sequence[Price] | None) -> tuple[Price, ...]:
    """Read a person's own prices, which go before the table's.

    Args:
        prices: A `Price` list, or a mapping from a name's beginning to a `Price`, to four numbers in the order input,
            output, cache read, cache write, or to a mapping with `input`, `output`, `cache_read`, `cache_write`.

    Raises:
        ConfigError: Anything else.
    """
    if prices is None:
        return ()
    if isinstance(prices, Mapping):
        return tuple(_read_price(str(prefix), value) for prefix, value in prices.items())
    if not isinstance(prices, Sequence):
        return (_read_price("", prices),)
    return tuple(_read_price("", value) for value in prices)


def _read_price(prefix: str, value: Any) -> Price:
    if isinstance(value, Price):
        return replace(value, prefix=prefix) if prefix else value
    if isinstance(value, Mapping) and set(value) == set(_FIELDS):
        value = [value[name] for name in _FIELDS]
    if prefix and isinstance(value, Sequence) and len(value) == len(_FIELDS):
        numbers = [float(n) for n in value if isinstance(n, int | float) and not isinstance(n, bool) and n >= 0]
        if len(numbers) == len(_FIELDS):
            return Price(prefix, numbers[0], numbers[1], numbers[2], numbers[3])
    raise ConfigError(
        "prices maps how a model's name begins to four prices in dollars per million tokens: "
        "{'claude-sonnet': {'input': 3, 'output': 15, 'cache_read': 0.3, 'cache_write': 3.75}}."
    )


def find_price(name: str, own: Sequence[Price] = ()) -> Price | None:
    """The row with the longest prefix of a model's name, among one's own prices first, or None.

    One's own prefixes may be as short as one likes. A row of the table is one version: `claude-opus-5` is not the
    price of a `claude-opus-5-7` that came later, as a wrong price would be worse than none.
    """
    found = [price for price in own if name.startswith(price.prefix)]
    if not found:
        rows = [price for price in PRICES if name.startswith(price.prefix)]
        found = [price for price in rows if _SAME_MODEL.fullmatch(name[len(price.prefix) :])]
    return max(found, key=lambda price: len(price.prefix), default=None)


def with_cost(usage: Usage, name: str, prices: Sequence[Price] = ()) -> Usage:
    """The usage with its cost, which stays None if the model's price is not known."""
    price = find_price(name, prices)
    if price is None or usage.input_tokens is None or usage.output_tokens is None:
        return replace(usage, cost=None)
    read, write = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    if price.prompt_limit is not None and usage.input_tokens + read + write > price.prompt_limit:
        return replace(usage, cost=None)
    total = (
        usage.input_tokens * price.input
        + usage.output_tokens * price.output
        + read * price.cache_read
        + write * price.cache_write
    )
    return replace(usage, cost=total / 1_000_000)
