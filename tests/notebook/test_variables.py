"""Kernel variables by name: lists, resolution, privacy, mentions (spec/notebook.md, section 5)."""

from __future__ import annotations

import time
import types
from typing import Annotated, Any

import pytest

from chatnb.actions import Variable, action
from chatnb.errors import ActionError
from chatnb.kernel.objects import ChatObjects
from chatnb.kernel.variables import (
    ChatVariables,
    variable_parameters,
    variables_block,
    variables_text,
    with_variables,
)
from chatnb.kernel.variables_mentions import (
    Mentions,
    convert_mention,
    mention_text,
    mentioned_names,
    unavailable_part,
)
from chatnb.kernel.variables_watch import NamespaceWatch
from chatnb.messages import UIMessage, to_model_messages
from chatnb.models.port import is_ephemeral
from chatnb.policies import Variables


class Engine:
    """A class of the user's own."""


@action(read_only=True)
def use(engine: Engine) -> str:
    """Use an engine."""
    return "ok"


@action(read_only=True)
def total(numbers: Annotated[list[int], Variable()]) -> int:
    """Add numbers."""
    return sum(numbers)


WANTED = variable_parameters([use])[0]


def chat(
    namespace: dict[str, Any], *, objects: ChatObjects | None = None, **policy: Any
) -> tuple[ChatVariables, NamespaceWatch]:
    watch = NamespaceWatch(lambda: namespace)
    watch.observe()
    return ChatVariables(Variables(**policy), watch, objects), watch


def names(found: tuple[dict[str, Any], ...] | None) -> list[str]:
    assert found is not None
    return [item["name"] for item in found]


class TestResolve:
    def test_by_name(self) -> None:
        """Section 5: a plain identifier, in the namespace; an instance of the annotation."""
        engine = Engine()
        variables, _ = chat({"e": engine})
        assert variables("e", WANTED) is engine

    def test_results_come_first(self) -> None:
        """Section 5: in `chat.objects` if such a name exists there, else in the namespace."""
        kept, other = Engine(), Engine()
        objects = ChatObjects()
        objects.keep(kept, action="f", tool_call_id="call_1")
        variables, _ = chat({"f_1": other, "e": other}, objects=objects)
        assert variables("f_1", WANTED) is kept
        assert variables("e", WANTED) is other
        objects.clear()
        assert variables("f_1", WANTED) is other
        with pytest.raises(ActionError):
            variables("call_1", WANTED)

    @pytest.mark.parametrize("name", ["dff", "df.T", "df[0]", "df + df", "", "_df", "0"])
    def test_unknown(self, name: str) -> None:
        """C23 of notebook.md: `unknown_variable` names the closest first; paths and expressions are no names."""
        variables, _ = chat({"zz": Engine(), "df": Engine(), "_df": Engine(), "n": 3})
        with pytest.raises(ActionError) as caught:
            variables(name, WANTED)
        assert caught.value.code == "unknown_variable"
        assert caught.value.details["wanted"] == "Engine"
        assert caught.value.details["name"] == name
        if name == "dff":
            assert caught.value.details["candidates"] == ["df", "zz"]
            assert "Candidates: df, zz." in str(caught.value)

    def test_wrong_type(self) -> None:
        """C23 of notebook.md: `wrong_type` for a variable of another type."""
        variables, _ = chat({"df": Engine(), "n": 3})
        with pytest.raises(ActionError) as caught:
            variables("n", WANTED)
        assert caught.value.code == "wrong_type"
        assert caught.value.details["candidates"] == ["df"]

    def test_ten_candidates_at_most(self) -> None:
        """Section 5: up to 10 candidates."""
        variables, _ = chat({f"e{n}": Engine() for n in range(30)})
        with pytest.raises(ActionError) as caught:
            variables("e99", WANTED)
        assert len(caught.value.details["candidates"]) == 10

    def test_remembers_what_a_name_means(self) -> None:
        """Section 5: a token for what a name means; another object, or none, is another token."""
        namespace: dict[str, Any] = {"e": Engine()}
        variables, _ = chat(namespace)
        before = variables.remember("e")
        assert variables.remember("e") == before
        namespace["e"] = Engine()
        assert variables.remember("e") != before
        del namespace["e"]
        assert variables.remember("e") != before
        assert variables.remember("e") is None


class TestPrivacy:
    SECRETS: dict[str, Any] = {  # noqa: RUF012 - a table
        "_private": Engine(),
        "api_key": "x",
        "GITHUB_TOKEN": b"x",
        "MySecret": "x",
        "db_passwd": "x",
        "credentials": "x",
        "time": time,
        "function": lambda: None,
        "Engine": Engine,
        "use": use,
        "In": [],
        "tmp_1": Engine(),
    }

    def test_private_names_are_as_none(self) -> None:
        """C25 of notebook.md: private names answer exactly as names that do not exist."""
        variables, _ = chat({**self.SECRETS, "seen": Engine(), "monkey": 3}, hide=("tmp_*",))
        assert list(variables.items()) == ["seen", "monkey"]

        def answer(name: str) -> tuple[str, str, set[str]]:
            with pytest.raises(ActionError) as caught:
                variables.find(name)
            said = str(caught.value).partition(" Candidates")[0]
            return caught.value.code, said.replace(name, "-"), set(caught.value.details["candidates"])

        for name in self.SECRETS:
            assert answer(name) == answer("nope")
            assert variables.remember(name) is None

    def test_only_texts_are_secrets(self) -> None:
        """Section 5: text or bytes under a name like a secret's; a frame of tokens is no secret."""
        variables, _ = chat({"tokens": [1, 2], "key": 3})
        assert list(variables.items()) == ["tokens", "key"]

    def test_hidden_by_ipython(self) -> None:
        """Section 5: IPython's hidden names; one that the user binds anew is theirs."""
        hidden = {"opened": 1, "page": 2}
        watch = NamespaceWatch(lambda: {"opened": 1, "page": "mine"}, lambda: hidden)
        assert list(ChatVariables(Variables(), watch).items()) == ["page"]


class TestList:
    def test_frames(self) -> None:
        """C22 of notebook.md: the list has `df` with columns and without a value, and not `_df` and `n`."""
        pd = pytest.importorskip("pandas")

        @action(read_only=True)
        def f(df: pd.DataFrame) -> int:
            """Look at a frame."""
            return 0

        frame = pd.DataFrame({"city": ["Paris"], "sum": [7]})
        variables, _ = chat({"df": frame, "_df": frame, "n": 3})
        found = variables.listing(variable_parameters([f]))
        assert found == (
            {"name": "df", "type": "DataFrame", "shape": [1, 2], "columns": ["city", "sum"], "columnCount": 2},
        )
        text = variables_text(found or ())
        assert "- df: DataFrame, 1 x 2; columns: city, sum" in text
        assert "Paris" not in text

    def test_recent_first(self) -> None:
        """Section 5: the most recently bound first, also those bound anew."""
        namespace: dict[str, Any] = {"a": Engine(), "b": Engine(), "c": Engine()}
        variables, watch = chat(namespace)
        assert names(variables.listing([WANTED])) == ["c", "b", "a"]
        namespace["a"] = Engine()
        watch.observe()
        namespace["b"] = Engine()
        assert names(variables.listing([WANTED])) == ["b", "a", "c"]

    def test_limits(self) -> None:
        """Section 5: 20 names and 2,000 characters at most; no match says so."""
        found = [{"name": f"v{n}", "type": "T", "columns": ["c" * 30] * 12} for n in range(30)]
        text = variables_text(found)
        assert len(text) <= 2000
        assert text.endswith("more")
        assert variables_text([{"name": f"v{n}", "type": "T"} for n in range(30)]).count("- v") == 20
        assert "none" in variables_text([])

    def test_share(self) -> None:
        """Section 5: "names": name and type alone; "off": no list; exact names still resolve."""
        engine = [1, 2]
        wanted = variable_parameters([total])
        by_name, _ = chat({"e": engine}, share="names")
        assert by_name.listing(wanted) == ({"name": "e", "type": "list"},)
        off, _ = chat({"e": engine}, share="off")
        assert off.listing(wanted) is None
        assert off("e", wanted[0]) is engine
        with pytest.raises(ActionError) as caught:
            off("f", wanted[0])
        assert caught.value.details["candidates"] == []

    def test_no_parameters_no_list(self) -> None:
        """Section 5: for agents with such parameters."""
        variables, _ = chat({"e": Engine()})
        assert variables.listing([]) is None

    def test_slow_subclasses(self) -> None:
        """Section 5: read without waiting: a property of the user's subclass is not asked."""
        pd = pytest.importorskip("pandas")

        class Slow(pd.DataFrame):  # type: ignore[misc]
            @property
            def shape(self) -> Any:
                raise AssertionError("asked")

        variables, _ = chat({"s": Slow({"a": [1]})})
        wanted = types.SimpleNamespace(accepts=lambda value: True, name="x", shown="x")
        found = variables.listing([wanted])  # type: ignore[list-item]
        assert found is not None
        assert found[0]["shape"] == [1, 1]

    def test_the_block_is_last(self) -> None:
        """Section 5: one text block at the end of the last user message, after results, ephemeral; input unchanged."""
        user = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
        tool = {"role": "tool", "content": [{"type": "tool-result"}]}
        assistant = {"role": "assistant", "content": [{"type": "text", "text": "partial"}]}
        block = variables_block([])
        assert is_ephemeral(block)
        assert with_variables([user], [])[0]["content"] == [{"type": "text", "text": "hi"}, block]
        assert with_variables([user, assistant, tool], [])[-1] == {"role": "user", "content": [block]}
        assert with_variables([user, assistant], [])[1] is assistant
        assert with_variables([user], None) == [user]
        assert len(user["content"]) == 1


class TestMentions:
    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("@df what is odd?", ["df"]),
            ("see @df, and (@orders) [@x] @df.", ["df", "orders", "x"]),
            ("a@b.org \\@df x@y @ @1", []),
            ("line\n@größe", ["größe"]),
        ],
    )
    def test_where_a_mention_is(self, text: str, found: list[str]) -> None:
        """Section 5: at the start or after white space or an opening bracket; `\\@x` and addresses stay text."""
        assert mentioned_names(text) == found

    def test_the_part(self) -> None:
        """C26 of notebook.md: the summary is of the moment; later changes do not reach it."""
        namespace: dict[str, Any] = {"df": [1, 2], "api_key": "x"}
        part = Mentions(chat(namespace)[0]).part("df")
        assert part == {"type": "data-variable", "data": {"name": "df", "type": "list", "summary": "[1,2]"}}
        namespace["df"].append(3)
        assert part["data"]["summary"] == "[1,2]"
        assert Mentions(chat(namespace)[0]).part("nope") is None
        assert Mentions(chat(namespace)[0]).part("api_key") is None
        assert Mentions(chat(namespace, share="off")[0]).part("df") is None
        by_name = Mentions(chat(namespace, share="names")[0]).part("df")
        assert by_name is not None
        assert by_name["data"]["summary"] == ""

    def test_the_model_gets_the_preview(self) -> None:
        """Section 5: the preview is exactly the text that is sent, with its token estimate."""
        variables, _ = chat({"df": [1, 2]})
        mentions = Mentions(variables)
        part, preview = mentions.part("df"), mentions.preview("df")
        assert part is not None
        assert preview is not None
        message = UIMessage.from_wire({"id": "m", "role": "user", "parts": [{"type": "text", "text": "see @df"}, part]})
        content = to_model_messages([message], convert_data=convert_mention)[0]["content"]
        assert [item["text"] for item in content] == ["see @df", preview["text"]]
        assert preview["tokens"] == -(-len(preview["text"]) // 4)
        assert mention_text(unavailable_part("df")["data"]).endswith("in time.")

    def test_completion(self) -> None:
        """Section 5: prefix first, then substring; 20; variables and results; while busy the names known before."""
        namespace: dict[str, Any] = {"orders": [1], "big_orders": [1], "other": 1, **{f"n{k}": 1 for k in range(40)}}
        objects = ChatObjects()
        objects.keep([1], action="orders", tool_call_id=None)
        variables, watch = chat(namespace, objects=objects)
        mentions = Mentions(variables)
        found = mentions.complete("or")
        assert [item["name"] for item in found["items"]] == ["orders", "orders_1", "big_orders"]
        assert found["stale"] is False
        assert len(mentions.complete("")["items"]) == 20
        watch.cell_began()
        namespace["orders_new"] = 1
        busy = mentions.complete("@orders")
        assert busy["stale"] is True
        assert [item["name"] for item in busy["items"]] == ["orders", "orders_1", "big_orders"]
        watch.cell_ended()
        watch.cell_began()
        assert "orders_new" in [item["name"] for item in mentions.complete("or")["items"]]

    def test_unknown_words_stay_text(self) -> None:
        """Section 5: unknown `@words` stay text."""
        variables, _ = chat({"df": 1})
        assert Mentions(variables).known("@df @nope @anna") == ["df"]
