"""How much a transcript holds, and what can be written at all (spec/widget.md, section 9)."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from chatnb import Agent
from chatnb.export import render_html, render_markdown
from chatnb.export.images import name_images
from chatnb.messages import UIMessage
from chatnb.models import ScriptedModel
from chatnb.testing import mock_chat

LIMIT = 2_000_000


def image(size: int) -> str:
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * size).decode()


def message(*parts: Any, id: str = "m") -> UIMessage:
    wires = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return UIMessage.from_wire({"id": id, "role": "assistant", "parts": wires})


def shown(output: Any) -> tuple[Any, Any]:
    call = {"type": "tool-plot", "toolCallId": "c", "state": "output-available", "input": {}, "output": None}
    return call, {"type": "data-output", "data": {"toolCallId": "c", "outputs": [output]}}


BIG = image(600_000)
URL = f"data:image/png;base64,{BIG}"


class TestImages:
    @pytest.mark.parametrize(
        "parts",
        [
            ({"type": "file", "mediaType": "image/png", "url": URL, "filename": "plot.png"},),
            (f"Look: ![a plot]({URL}) there.",),
            shown({"image/png": BIG}),
            shown({"text/html": f"<p>Here</p><img alt='x' src='{URL}' width='10'>"}),
            shown({"text/markdown": f"![a plot]({URL})"}),
            shown({"image/svg+xml": "<svg>" + "<rect width='1'/>" * 60_000 + "</svg>"}),
        ],
        ids=["file", "text", "png", "html", "markdown", "svg"],
    )
    def test_over_500_kb_is_a_line(self, parts: tuple[Any, ...]) -> None:
        """Section 9: images over 500 kB as a line, wherever they stand; in Markdown images are named."""
        html, markdown = render_html([message(*parts)]), render_markdown([message(*parts)])
        assert len(html) < 5_000
        assert "bytes]" in html
        assert len(markdown) < 1_000
        assert "image" in markdown or "text/html" in markdown

    def test_smaller_ones_are_drawn(self) -> None:
        """Section 9: images as data, in html; the Markdown form has none of their data."""
        small = f"data:image/png;base64,{image(1000)}"
        text = message(f"![a plot]({small})", *shown({"text/html": f"<img src='{small}'>"}))
        assert render_html([text]).count('<img src="data:image/png;base64,') == 2
        assert "base64" not in render_markdown([text])

    @pytest.mark.parametrize(
        ("text", "wanted"),
        [
            ("![a](http://x.org/a.png)", "[image: a]"),
            ('![a b](x.png "title") and ![](y.png)', "[image: a b] and [image: no description]"),
            ("![a][ref], ![b](u(v)w)", "[image: a], [image: b]"),
            ("[link](x) !not ![open", "[link](x) !not ![open"),
        ],
    )
    def test_named(self, text: str, wanted: str) -> None:
        """Section 9: in Markdown images are named; so nothing is loaded from elsewhere either."""
        assert name_images(text) == wanted

    def test_code_is_code(self) -> None:
        """Section 9: text as it is: an image that stands in code is none."""
        assert "`![a](b)`" in render_markdown([message("`![a](b)`")])
        assert "![a](b)" in render_markdown([message("```\n![a](b)\n```")])


class TestTheNewest:
    def test_is_never_left_out(self) -> None:
        """Section 9: newest messages first: one that does not fit is told by a line, or shown without its images."""
        long = [message("first", id="a"), message("x" * 3_000_000, id="b")]
        for text in (render_html(long), render_markdown(long)):
            assert len(text.encode()) <= LIMIT
            assert "Assistant" in text
            assert "This message of 3,000," in text
            assert "first" in text
        plots = [part for _ in range(6) for part in shown({"image/png": image(400_000)})]
        html = render_html([message("Six plots.", *plots)])
        assert "Six plots." in html
        assert html.count("[image of 400,0") == 6


class TestHalvesOfCharacters:
    async def test_are_written_as_what_can_be_written(self) -> None:
        """Section 9: a model that cuts its text inside a character leaves a chat that is shown and exported."""
        async with mock_chat(Agent(ScriptedModel(["half \ud83d, whole \ud83d\ude00"]))) as mock:
            await mock.chat.send("also \ude00 here")
            texts = [render_html(mock.chat.messages), render_markdown(mock.chat.messages)]
            texts += [mock.chat.export(format) for format in ("md", "html", "ipynb")]
            for text in texts:
                assert "half \ufffd, whole \U0001f600" in text
                text.encode()
            exported = mock.chat.export("json")
            exported.encode()
            kept = json.loads(exported)["messages"][1]["parts"][-1]["text"]
            assert kept == "half \ud83d, whole \ud83d\ude00".encode("utf-16", "surrogatepass").decode(
                "utf-16", "surrogatepass"
            )

    def test_links_hold_no_markup(self) -> None:
        """Section 7: nor does the address of a source, in Markdown."""
        source = {"type": "source-url", "sourceId": "s", "url": "http://x/><script>alert(1)</script>", "title": "T"}
        variable = {"type": "data-variable", "data": {"name": "<b>", "type": "<i>"}}
        text = render_markdown([message(source, variable)])
        assert "<script" not in text
        assert "<b>" not in text
