"""How it is found out whether commands come beside a cell or between cells (spec/widget.md, section 8)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from chatnb.widget.delivery import DeliveryFinder, keep_route

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def sent(seconds_ago: float, **fields: object) -> dict[str, object]:
    return {"date": NOW - timedelta(seconds=seconds_ago), **fields}


class TestDeliveryFinder:
    def test_a_subshell_shows_parallel_delivery(self) -> None:
        """A subshell in a command's parent header shows parallel delivery."""
        finder = DeliveryFinder()
        assert finder.note(sent(0), now=NOW) == "unknown"
        assert finder.note(sent(0, subshell_id="s"), now=NOW) == "parallel"

    def test_a_wait_shows_the_opposite(self) -> None:
        """A wait for a cell shows the opposite, whatever was thought before."""
        finder = DeliveryFinder()
        assert finder.note(sent(3), now=NOW) == "between-cells"
        assert finder.note(sent(0, subshell_id="s"), now=NOW) == "parallel"
        assert finder.note(sent(3), now=NOW) == "between-cells"

    def test_the_first_hello_of_a_page_may_wait(self) -> None:
        """JupyterLab sends the first message of a page to the main shell: that it waited tells nothing."""
        finder = DeliveryFinder("parallel")
        assert finder.note(sent(9), is_hello=True, now=NOW) == "parallel"

    def test_a_page_whose_clock_is_ahead(self) -> None:
        """What counts is how much longer a command was under way than the quickest, if clocks differ."""
        finder = DeliveryFinder()
        assert finder.note(sent(-60), now=NOW) == "unknown"
        assert finder.note(sent(-59.9), now=NOW) == "unknown"
        assert finder.note(sent(-57), now=NOW) == "between-cells"

    def test_headers_that_tell_nothing(self) -> None:
        """A host without headers, or with dates that are none, is not known."""
        finder = DeliveryFinder()
        for header in (None, 3, {}, {"date": "soon"}, {"date": 5}, {"subshell_id": None}):
            assert finder.note(header, now=NOW) == "unknown"
        assert finder.note({"date": "2026-01-01T11:59:00Z"}, now=NOW) == "between-cells"

    def test_the_route_is_kept_on_that_one_object(self) -> None:
        """Section 8: where the comm object has `_reply_subshell_for` it is replaced; elsewhere it works without."""
        comm = SimpleNamespace(_reply_subshell_for=lambda data, default: "main")
        keep_route(comm)
        assert comm._reply_subshell_for({}, "page") == "page"
        plain = SimpleNamespace()
        keep_route(plain)
        keep_route(None)
        assert vars(plain) == {}
