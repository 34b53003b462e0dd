"""`schemathesis` against the served OpenAPI description of the action routes: no 5xx, whatever it sends (issue 8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from pydantic import BaseModel

from chatnb import Agent, action
from chatnb.models import ScriptedModel
from tests.sites.http_server import serving

schemathesis = pytest.importorskip("schemathesis")


class Order(BaseModel):
    """An order."""

    number: int
    note: str | None = None


@action(http="GET")
def look(limit: int = 1, live: bool = False, tags: list[str] | None = None) -> list[Any]:
    """Look."""
    return [limit, live, tags]


@action
def sales(region: Literal["EU", "US"], year: int = 2025, extra: Any = None) -> dict[str, Any]:
    """Look up sales."""
    return {"region": region, "year": year}


@action(needs_approval=True)
def refund(order: Order, amounts: dict[str, float]) -> str:
    """Refund an order."""
    return "refunded"


@action(http={"method": "PUT", "path": "/things", "max_body_bytes": 200})
def put_thing(text: str) -> int:
    """Put a thing."""
    return len(text)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    agent = Agent(ScriptedModel([]), actions=[look, sales, refund, put_thing])
    with serving(agent) as address:
        yield address


@pytest.mark.filterwarnings("ignore")
def test_no_server_error(address: str) -> None:
    """Every answer is below 500, and is one that the description names."""
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    seen: set[int] = set()

    def check(case: Any) -> None:
        response = case.call()
        seen.add(response.status_code)
        assert response.status_code < 500, response.text

    some = settings(
        max_examples=25,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    for result in schema.get_all_operations():
        some(given(result.ok().as_strategy())(check))()
    assert 200 in seen
