"""The static transcript: readable anywhere, the same bytes, nothing that runs or loads (spec/widget.md, 7 and 9)."""

from __future__ import annotations

import base64
import configparser
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatnb.export import render_html, render_markdown, transcript
from chatnb.export.markdown import escape_raw_html, render
from chatnb.export.sanitise import sanitise
from chatnb.messages import UIMessage
from chatnb.testing.nbval import nbval_sanitizer

PNG = base64.b64encode(b"\x89PNG" + b"0" * 1000).decode()


def message(role: str, *parts: Any, id: str = "m") -> UIMessage:
    wires = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return UIMessage.from_wire({"id": id, "role": role, "parts": wires})


def call(state: str = "output-available", **more: Any) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "tool-refund", "toolCallId": "c9", "state": state, "input": {"amount": 250}, **more}
    if state == "output-available":
        part.setdefault("output", {"ok": True})
    return part


class TestContent:
    def test_roles_text_tables_and_code(self) -> None:
        """Section 9: roles, text, code and tables are readable."""
        html = render_html(
            [message("user", "look"), message("assistant", "| a | b |\n|-|-|\n| 1 | 2 |\n\n```py\nx = 1\n```")]
        )
        for wanted in ("<strong>You</strong>", "<strong>Assistant</strong>", "<td", "x = 1", "<pre"):
            assert wanted in html
        assert html.startswith('<div class="chatnb-transcript"')
        assert html.count("chatnb-transcript") == 1

    @pytest.mark.parametrize(
        ("part", "wanted"),
        [
            (call(), ["refund", "Done", "250", "ok"]),
            (call("output-error", errorText="ValueError: no"), ["Failed", "ValueError: no"]),
            (
                call("output-denied", approval={"id": "p", "approved": False, "reason": "too much"}),
                ["Denied", "too much"],
            ),
            (call("approval-requested", approval={"id": "p"}), ["Needs approval", "250"]),
            (call(toolMetadata={"chatnb": {"originalInput": {"amount": 999}}}), ["edited by the person", "999"]),
        ],
    )
    def test_calls(self, part: dict[str, Any], wanted: list[str]) -> None:
        """Section 9: calls with arguments, state and result, errors and denied marks; in both forms."""
        html, markdown = render_html([message("assistant", part)]), render_markdown([message("assistant", part)])
        for text in wanted:
            assert text in html
        for text in wanted[:1]:
            assert text in markdown

    def test_outputs_of_a_call(self) -> None:
        """Section 9: plots and printed text stand in their call; addresses do not."""
        output = {
            "type": "data-output",
            "id": "c9",
            "data": {
                "toolCallId": "c9",
                "outputs": [
                    {"stream": "stdout", "text": "\x1b[31mred\x1b[0m <Thing at 0x7f3a5c1d2e40>"},
                    {"image/png": PNG, "text/plain": "<Figure>"},
                    {"text/html": "<table><tr><td onclick='x()'>cell</td></tr></table>"},
                ],
            },
        }
        html = render_html([message("assistant", call(), output)])
        assert "red &lt;Thing at 0x…&gt;" in html
        assert f"data:image/png;base64,{PNG}" in html
        assert "cell" in html
        assert "onclick" not in html

    @pytest.mark.parametrize(
        ("text", "math", "left"),
        [
            ("from $5 to $10", 0, "from $5 to $10"),
            ("$x^2$", 1, ""),
            (r"\(a\)", 1, ""),
            (r"\[b\]", 1, 'display="block"'),
            ("$$c$$", 1, 'display="block"'),
            ("$$\na\n= b\n- c\n$$", 1, 'display="block"'),
            ("`$d$`", 0, "<code>$d$</code>"),
            (r"\$5 and \$6", 0, "$5 and $6"),
            ("$ x$", 0, "$ x$"),
            ("$x $", 0, "$x $"),
            ("two prices, $5 and $6, and $y$", 1, "$5 and $6"),
        ],
    )
    def test_math(self, text: str, math: int, left: str) -> None:
        """C21: the four delimiters and the currency rule; MathML with the TeX as annotation."""
        html = render(text)
        assert html.count("<math") == math
        assert html.count("application/x-tex") == math
        assert left in html

    def test_wrong_tex_shows_its_source(self) -> None:
        """Section 4: wrong TeX shows its source."""
        assert r"\frac" in render(r"$\frac{$")

    def test_an_empty_chat(self) -> None:
        """Section 9: an empty chat has "No messages yet."."""
        assert "No messages yet." in render_html([])
        assert "No messages yet." in render_markdown([])

    def test_steered_words_stand_at_their_place(self) -> None:
        """C40: the words stand at their place within the reply."""
        steered = {"type": "data-steering-message", "data": {"parts": [{"type": "text", "text": "in euros"}]}}
        html = render_html([message("assistant", "first", steered, "second")])
        assert html.index("first") < html.index("in euros") < html.index("second")

    def test_the_newest_messages_are_kept(self) -> None:
        """Section 9: newest messages first up to 2 MB; a last line tells how many are left out."""
        talk = [message("user", f"number {n} " + "x" * 100_000, id=f"m{n}") for n in range(40)]
        html = render_html(talk)
        assert len(html.encode()) <= 2_000_000
        assert "number 39" in html
        assert "number 0 " not in html
        assert re.search(r"\d+ earlier messages are left out here", html)

    def test_a_large_image_is_a_line(self) -> None:
        """Section 9: images over 500 kB as a line."""
        url = "data:image/png;base64," + base64.b64encode(b"0" * 600_000).decode()
        html = render_html(
            [message("user", {"type": "file", "mediaType": "image/png", "url": url, "filename": "p.png"})]
        )
        assert "p.png" in html
        assert "base64" not in html


class TestSameBytes:
    def test_no_ids_and_the_same_bytes(self) -> None:
        """C35: no id, time or address; same history, same bytes."""
        one = [
            message("user", "a", id="msg-1"),
            message("assistant", call("approval-requested", approval={"id": "ap-1"})),
        ]
        two = [
            message("user", "a", id="msg-2"),
            message("assistant", call("approval-requested", approval={"id": "ap-2"})),
        ]
        assert render_html(one) == render_html(two)
        assert render_markdown(one) == render_markdown(two)
        assert "c9" not in render_html(one)

    def test_a_key_is_redacted(self) -> None:
        """C36: the value of a key is in no transcript, also once it was rendered without."""
        talk = [message("assistant", "the key is sk-secret-1")]
        render_html(talk)
        assert "sk-secret-1" not in render_html(talk, redact=lambda text: text.replace("sk-secret-1", "[redacted]"))

    def test_nbval_rules_match_whole_transcripts(self) -> None:
        """C35: with the sanitizer's file all transcripts are equal."""
        rules = configparser.RawConfigParser()
        rules.read(nbval_sanitizer())
        for first, second in (
            (render_html([]), render_html([message("user", "a\n\nb")])),
            (render_markdown([]), render_markdown([message("user", "a\n\nb")])),
        ):
            for section in rules.sections():
                rule, text = rules.get(section, "regex"), rules.get(section, "replace")
                first, second = re.sub(rule, text, first), re.sub(rule, text, second)
            assert first == second == "chat transcript"


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)><script>alert(1)</script></svg>",
    '<svg><use href="https://evil.test/x#y"/><image href="https://evil.test/x.png"/></svg>',
    '<math><mi href="javascript:alert(1)">x</mi><maction actiontype="x">y</maction></math>',
    '<a href="javascript:alert(1)">x</a>',
    '<a href=" jAvAsCrIpT:alert(1)">x</a>',
    '<iframe src="https://evil.test"></iframe><object data="x"></object><embed src="x">',
    '<form action="https://evil.test"><input name=a><button>Approve</button></form>',
    '<div style="position:fixed;top:0;background:url(https://evil.test)">over</div>',
    '<div class="chatnb-view" id="approve" name="x">imitation</div>',
    '<link rel=stylesheet href="https://evil.test"><meta http-equiv=refresh content="0;url=https://evil.test">',
    '<base href="https://evil.test"><style>*{display:none}</style>',
    '<img src="https://evil.test/x.png" srcset="https://evil.test/y.png 2x">',
    '<svg><animate attributeName="href" to="javascript:alert(1)"/><foreignObject><b>x</b></foreignObject></svg>',
    '<svg><rect fill="url(https://evil.test#a)"/></svg>',
    '<noscript><p title="</noscript><img src=x onerror=alert(1)>">',
    '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=alert(1)&gt;">',
]
FORBIDDEN = re.compile(
    r"<(script|iframe|object|embed|form|input|button|link|meta|base|style|use|image|animate|foreignobject|maction|video)"
    r"|\son\w+\s*=|javascript:|srcset|position\s*:|url\(\s*['\"]?https?:|\s(id|name|class)=",
    re.IGNORECASE,
)


def tags_of(html: str) -> str:
    """The tags alone: what is text between them can do nothing."""
    return " ".join(re.findall(r"<[^>]*>", html))


class TestHostile:
    @pytest.mark.parametrize("markup", HOSTILE)
    def test_nothing_runs_or_loads(self, markup: str) -> None:
        """C23, C24, section 7: content cannot load, run, submit, or imitate controls, however it comes."""
        output = {"type": "data-output", "id": "c9", "data": {"toolCallId": "c9", "outputs": [{"text/html": markup}]}}
        parts = [
            markup,
            call(title=markup),
            output,
            {"type": "file", "mediaType": markup, "url": "x:y", "filename": markup},
        ]
        html = render_html([message("assistant", *parts)]).replace(' class="chatnb-transcript"', "")
        assert not FORBIDDEN.search(tags_of(html))
        assert not FORBIDDEN.search(tags_of(sanitise(markup)))

    def test_links_and_images(self) -> None:
        """C22: a remote image is a link that names host and alt text; links only http, https, mailto, `#`."""
        html = render("![a cat](https://host.test/cat.png) [x](javascript:alert(1)) [y](https://ok.test)")
        assert "[image at host.test: a cat]" in html
        assert "<img" not in html
        assert "javascript" not in html
        assert 'href="https://ok.test"' in html

    def test_direction_overrides_show(self) -> None:
        """Section 7: direction overrides show as escapes."""
        assert "\\u202e" in render("a\u202eb")
        assert "\u202e" not in render_html([message("assistant", call(title="a\u202eb"))])

    @given(st.text(alphabet=st.sampled_from("<>ab`~\n\"'=/! -&;$\\()[]*_#|"), max_size=80))
    def test_any_text_stays_text(self, text: str) -> None:
        """Raw html in messages is text, whatever surrounds it."""
        html = render(text + "<img src=x onerror=1>")
        assert not re.search(r"<img", html)

    def test_markdown_has_no_raw_html(self) -> None:
        """In the Markdown form raw html is text, and code stays as it is."""
        text = "a <b>x</b> `<i>` <https://ok.test>\n\n```\n<script>\n```\n<script>"
        assert escape_raw_html(text) == "a &lt;b>x&lt;/b> `<i>` <https://ok.test>\n\n```\n<script>\n```\n&lt;script>"


class TestCost:
    """A history is rendered once, however long it is: each settled turn asks for all of it."""

    def test_a_long_history_and_others_beside_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made: list[str] = []
        inner = transcript._html_block

        def counted(message: UIMessage) -> str:
            made.append(message.id)
            return inner(message)

        monkeypatch.setattr(transcript, "_html_block", counted)
        chats = [[message("user", f"{chat} {n}", id=f"c{chat}-{n}") for n in range(1_500)] for chat in range(2)]
        first = [(render_html(chat), render_markdown(chat)) for chat in chats]
        assert len(made) == 3_000
        assert [(render_html(chat), render_markdown(chat)) for chat in chats] == first
        assert len(made) == 3_000

    def test_what_is_kept_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The blocks of messages that nobody asks for any more go first."""
        monkeypatch.setattr(transcript, "KEPT", 100_000)
        monkeypatch.setattr(transcript, "_blocks", blocks := transcript._Blocks())
        used = message("user", "used", id="used")
        render_html([lost := message("user", "lost" * 1_000, id="lost")])
        for n in range(100):
            render_html([used, message("user", f"{n} " * 1_000, id=f"m{n}")])
        assert blocks.find(lost, "html") is None
        assert blocks.find(used, "html") is not None
