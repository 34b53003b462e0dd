"""Exports: md, html, json, ipynb (spec/notebook.md, section 10)."""

from __future__ import annotations

import json
import re
from typing import Any

import nbformat
import pytest

from chatnb.errors import ExportError, ExportFormatError
from chatnb.export import ChatRecord, export_chat, parse_json
from chatnb.messages import UIMessage

from .test_transcript import PNG, call, message


def record(*messages: UIMessage, **more: Any) -> ChatRecord:
    return ChatRecord(chat_id="q3-review", agent="analyst", messages=messages, **more)


RUN = {
    "type": "tool-run_code",
    "toolCallId": "r1",
    "state": "output-available",
    "input": {"code": "print(1)\n1 + 1"},
    "output": {"stdout": "1\n", "result": 2},
}
SHOWN = {
    "type": "data-output",
    "id": "r1",
    "data": {"toolCallId": "r1", "outputs": [{"stream": "stdout", "text": "1\n"}, {"image/png": PNG}]},
}


class TestMarkdown:
    def test_verbatim_with_headings(self) -> None:
        """Section 10: roles as headings, text verbatim, calls fenced, images as data URLs."""
        url = f"data:image/png;base64,{PNG}"
        text = export_chat(
            record(
                message(
                    "user", "a <b> $x$", {"type": "file", "mediaType": "image/png", "url": url, "filename": "p.png"}
                ),
                message("assistant", call()),
            ),
            "md",
        )
        assert "## User\n\na <b> $x$" in text
        assert f"![p.png]({url})" in text
        assert "### refund (Done)" in text

    def test_a_fence_is_longer_than_any_inside(self) -> None:
        """Section 10: a fence is longer than any inside it."""
        text = export_chat(record(message("assistant", call(output="````\nx\n````"))), "md")
        assert "`````\n````\nx\n````\n`````" in text

    def test_unfinished(self) -> None:
        """Section 10: it works while streaming, marked unfinished."""
        for format in ("md", "html", "ipynb"):
            assert "(unfinished)" in export_chat(record(message("user", "x"), is_unfinished=True), format)


class TestHtml:
    def test_one_file_without_requests(self) -> None:
        """Section 10: one file, no script, no request, a content policy that forbids them; light and dark."""
        text = export_chat(record(message("assistant", "$x^2$ ![a](https://h.test/x.png)")), "html")
        assert "default-src 'none'" in text
        assert "color-scheme" in text
        assert "<math" in text
        assert "<script" not in text
        assert not re.search(r'(src|srcset)="http', text)


class TestJson:
    def test_it_loads_back_equal(self) -> None:
        """Section 10: a chat whose export is equal but for the chat's id; waiting calls load as waiting."""
        made = record(
            message("user", "x"),
            message("assistant", call("approval-requested", approval={"id": "p"})),
            usage={"inputTokens": 3},
            tree={"nodes": []},
            head="n1",
        )
        text = export_chat(made, "json")
        assert parse_json(text) == made
        assert export_chat(parse_json(text), "json") == text

    @pytest.mark.parametrize(
        "text", ["", "[]", "{}", '{"format": "other"}', '{"format": "chatnb.chat", "messages": 3}']
    )
    def test_something_else(self, text: str) -> None:
        """Section 10: what is no export is refused."""
        with pytest.raises(ExportFormatError):
            parse_json(text)

    def test_a_newer_version(self) -> None:
        """Section 10: newer version: `ExportFormatError`."""
        data = json.loads(export_chat(record(), "json")) | {"version": 99}
        with pytest.raises(ExportFormatError, match="newer"):
            parse_json(json.dumps(data))


class TestNotebook:
    def test_valid_with_stable_ids(self) -> None:
        """Section 10: nbformat 4.5, valid, stable cell ids, no widget state."""
        talk = record(message("user", "x", id="a"), message("assistant", "one", RUN, SHOWN, "two", id="b"))
        text = export_chat(talk, "ipynb")
        notebook = nbformat.reads(text, 4)
        nbformat.validate(notebook)
        assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
        assert "widgets" not in notebook.metadata
        assert export_chat(talk, "ipynb") == text
        kinds = [cell.cell_type for cell in notebook.cells]
        assert kinds == ["markdown", "markdown", "markdown", "code", "markdown"]
        code = notebook.cells[3]
        assert code.source == "print(1)\n1 + 1"
        assert [output.output_type for output in code.outputs] == ["stream", "display_data"]

    def test_only_code_that_ran_is_code(self) -> None:
        """Section 10: code that never ran, and other calls, are fenced Markdown."""
        denied = {**RUN, "state": "output-denied", "approval": {"id": "p", "approved": False}}
        del denied["output"]
        talk = record(message("assistant", denied, call()))
        cells = nbformat.reads(export_chat(talk, "ipynb"), 4).cells
        assert {cell.cell_type for cell in cells} == {"markdown"}
        assert "print(1)" in cells[-1].source

    def test_raw_html_is_escaped(self) -> None:
        """Section 10: raw HTML in messages is escaped in Markdown cells."""
        cells = nbformat.reads(export_chat(record(message("assistant", "<script>x</script>")), "ipynb"), 4).cells
        assert "<script>" not in cells[-1].source


class TestFormats:
    def test_unknown_format(self) -> None:
        """Section 10: unknown format: `ExportError`."""
        with pytest.raises(ExportError, match="docx"):
            export_chat(record(), "docx")

    def test_keys_are_redacted(self) -> None:
        """Section 10: no export holds keys."""
        for format in ("md", "html", "json", "ipynb"):
            text = export_chat(
                record(message("user", "key sk-1")), format, redact=lambda text: text.replace("sk-1", "[redacted]")
            )
            assert "sk-1" not in text
