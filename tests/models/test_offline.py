"""OfflineModel: honest, deterministic, and able to use a reader's own actions (spec/notebook.md, section 8)."""

from __future__ import annotations

from typing import Any

import pytest

from chatnb.models import EPHEMERAL_OPTIONS, OfflineModel, StepEnd
from tests.models.build import Waits, ask, assistant, call, collect, end_of, inputs_of, results, spec, text_of, user

REGION = {"type": "string", "description": "Two-letter region code."}
YEAR = {"type": "integer", "default": 2025, "description": "Calendar year."}
SALES = spec("sales", "Look up sales.", ("region",), region=REGION, year=YEAR)
REFUND = spec("refund", "", ("order", "amount"), order={"type": "string"}, amount={"type": "number"})
ACTIONS = (SALES, REFUND)


async def answer(*messages: dict[str, Any] | str, **more: Any) -> list[Any]:
    more.setdefault("actions", ACTIONS)
    return await collect(OfflineModel(rhythm=False), ask(*messages, **more))


async def first_call(text: str, *actions: Any, **more: Any) -> Any:
    found = inputs_of(await answer(text, actions=actions, **more))
    return found[0] if found else None


class TestHonesty:
    async def test_facts_are_not_invented(self) -> None:
        """C32: asked for a fact it names no city, says it is the offline model and how to plug in Claude."""
        text = text_of(await answer("What is the capital of France?"))
        assert "Paris" not in text
        assert "offline model" in text
        assert "ANTHROPIC_API_KEY" in text
        assert 'Agent("claude-sonnet-4-5")' in text

    async def test_it_lists_at_most_five_actions(self) -> None:
        """Anything else lists up to 5 actions."""
        text = text_of(await answer("hello", actions=tuple(spec(f"tool{n}", f"Does {n}.") for n in "abcdefg")))
        assert text.count("- `tool") == 5

    @pytest.mark.parametrize("text", ["hello", "look up sales", "Refund order 7, 250 EUR", "show me a table"])
    async def test_the_first_reply_names_it(self, text: str) -> None:
        """The first reply of every chat names it as the offline model."""
        assert "offline model" in text_of(await answer(text))

    @pytest.mark.parametrize(
        ("asked", "sign"),
        [("a table", "|:--|"), ("some code", "```python"), ("an equation", "$$"), ("a long text", "\n\n")],
    )
    async def test_samples(self, asked: str, sign: str) -> None:
        """ "table", "code", "math" (formula, equation), "long" without an action: a sample of that kind."""
        assert sign in text_of(await answer(f"Please show me {asked}"))


class TestDeterminism:
    async def test_equal_requests_give_equal_chunks(self) -> None:
        """Equal requests give equal chunks, call ids included; another turn has other call ids."""
        one, two = await answer("Refund order 7, 250 EUR"), await answer("Refund order 7, 250 EUR")
        other = await answer("Refund order 7, 250 EUR", turn_number=2)
        assert one == two
        ids = [next(i["toolCallId"] for i in items[:-1] if "toolCallId" in i) for items in (one, other)]
        assert ids[0] != ids[1]

    async def test_rhythm(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Words come 10 to 60 ms apart from the seed; `rhythm=False` or the variable removes all waiting."""
        monkeypatch.delenv("CHATNB_OFFLINE_RHYTHM", raising=False)
        seen = []
        for model in (OfflineModel(), OfflineModel(), OfflineModel(seed=1), OfflineModel(rhythm=False)):
            waits = Waits()
            await collect(model, ask("hello", sleep=waits))
            seen.append(waits.seconds)
        assert seen[0] == seen[1] != seen[2]
        assert all(0.010 <= seconds <= 0.060 for seconds in seen[0])
        assert seen[3] == []
        monkeypatch.setenv("CHATNB_OFFLINE_RHYTHM", "0")
        waits = Waits()
        await collect(OfflineModel(), ask("hello", sleep=waits))
        assert waits.seconds == []

    async def test_it_goes_on_mid_word_wherever_it_broke_off(self) -> None:
        """`continuation="prefill"`: the partial and what follows are the whole text, at every cut."""
        assert OfflineModel.continuation == "prefill"
        whole = text_of(await answer("hello"))
        for cut in range(1, len(whole), 7):
            partial = whole[:cut].rstrip()
            assert partial + text_of(await answer("hello", assistant(partial))) == whole

    async def test_a_call_still_comes_after_the_cut(self) -> None:
        """An answer that broke off before its call makes the same call."""
        whole = await answer("Refund order 7, 250 EUR")
        again = await answer("Refund order 7, 250 EUR", assistant(text_of(whole)))
        assert text_of(again) == ""
        assert [i for i in whole[:-1] if "toolCallId" in i] == [i for i in again[:-1] if "toolCallId" in i]

    async def test_usage(self) -> None:
        """Tokens are characters / 4 rounded up; cost 0."""
        items = await answer("hello")
        usage = end_of(items).usage
        assert usage is not None
        assert usage.input_tokens == 2
        assert usage.output_tokens == -(-len(text_of(items)) // 4)
        assert usage.cost == 0


class TestChoice:
    async def test_the_design_example(self) -> None:
        """C31: "Refund order 7, 250 EUR" is one call with order "7", amount 250.0."""
        assert inputs_of(await answer("Refund order 7, 250 EUR")) == [("refund", {"order": "7", "amount": 250.0})]
        assert isinstance(inputs_of(await answer("Refund order 7, 250 EUR"))[0][1]["amount"], float)

    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("run the weather_report", "weather_report"),
            ("WeatherReports please", "weather_report"),
            ("what about the weather", "weather_report"),
            ("how is the sky", None),
            ("who are you", None),
        ],
    )
    async def test_words(self, text: str, name: str | None) -> None:
        """Words split at case and `_`, plural `s` dropped; at least 3 points run."""
        found = await first_call(text, spec("weather_report", "Tells of the sky."), spec("list_users", "Shows people."))
        assert (found[0] if found else None) == name

    async def test_a_tie_asks_which(self) -> None:
        """A tie asks which one; the answer runs it with the arguments of the first message."""
        both = (spec("open_file", path={"type": "string"}), spec("close_file", path={"type": "string"}))
        items = await answer('the file "a.txt"', actions=both)
        assert inputs_of(items) == []
        assert "`open_file` or `close_file`" in text_of(items)
        again = await answer('the file "a.txt"', assistant(text_of(items)), "close", actions=both)
        assert inputs_of(again) == [("close_file", {"path": "a.txt"})]

    async def test_several_named_run_in_order(self) -> None:
        """An action is called at most once per message; when the text names several, in that order."""
        text = "Look up sales EU 2024 and refund order 7, 250 EUR"
        first = await answer(text)
        assert inputs_of(first) == [("sales", {"region": "EU", "year": 2024})]
        so_far = [assistant(text_of(first), call("c1", "sales")), results(("c1", [{"a": 1}]), name="sales")]
        second = await answer(text, *so_far)
        assert inputs_of(second) == [("refund", {"order": "7", "amount": 250.0})]
        so_far += [assistant("x", call("c2", "refund")), results(("c2", {"ok": True}), name="refund")]
        third = await answer(text, *so_far)
        assert inputs_of(third) == []
        assert "`refund` returned" in text_of(third)
        assert "`sales` returned" not in text_of(third)

    async def test_ephemeral_text_is_not_the_users(self) -> None:
        """The list of variables at the end of a request is not taken for the user's words."""
        last = {"role": "user", "content": [{"type": "text", "text": "sales", "providerOptions": EPHEMERAL_OPTIONS}]}
        assert inputs_of(await answer("hello", last)) == []


class TestArguments:
    @pytest.mark.parametrize(
        ("text", "schema", "value"),
        [
            ("go speed=3.5", {"type": "number"}, 3.5),
            ("go speed: 3", {"type": "integer"}, 3),
            ("go with a speed of 7", {"type": "integer"}, 7),
            ("go at 1,250.50 EUR", {"type": "number"}, 1250.5),
            ("go $5", {"type": "number"}, 5.0),
            ("go yes", {"type": "boolean"}, True),
            ("go speed off", {"type": "boolean"}, False),
            ("go very fast", {"enum": ["slow", "fast"]}, "fast"),
            ("go on 2026-11-30", {"type": "string", "format": "date"}, "2026-11-30"),
            ("go 'to the sea'", {"type": "string"}, "to the sea"),
            ("go to AB-12 now", {"type": "string"}, "AB-12"),
            ("go 1, 2 and 3", {"type": "array", "items": {"type": "integer"}}, [1, 2, 3]),
            ('go {"a": 1}', {"type": "object"}, {"a": 1}),
            ("go 4", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 4),
            ("go slowly", {"type": "number"}, None),
        ],
    )
    async def test_by_name_and_type(self, text: str, schema: dict[str, Any], value: Any) -> None:
        """`name=value`, a value after the name, then by type."""
        found = await first_call(text, spec("go", "", ("speed",), speed=schema))
        assert (found[1]["speed"] if found else None) == value

    async def test_code_in_fences(self) -> None:
        """A fenced block is quoted text, without its fence."""
        action = spec("run_code", "Run code.", ("code",), code={"type": "string"})
        assert await first_call("run this code:\n```python\nx = 1\ny = 2\n```", action) == (
            "run_code",
            {"code": "x = 1\ny = 2"},
        )

    async def test_a_variable_that_is_named_in_words(self) -> None:
        """A parameter that takes a variable's name gets the word after "variable"."""
        name = {"type": "string", "description": "The variable's name."}
        action = spec("inspect_variable", "Look at one.", ("name",), name=name)
        assert await first_call("inspect the variable df", action) == ("inspect_variable", {"name": "df"})

    async def test_nouns_of_the_description(self) -> None:
        """A value after a noun of the parameter's description."""
        action = spec("book", "", ("n", "k"), n={"type": "string", "description": "Hotel code."}, k={"type": "string"})
        assert await first_call("book B2 for hotel A1", action) == ("book", {"n": "A1", "k": "B2"})

    async def test_a_number_with_a_unit_goes_to_a_float_first(self) -> None:
        """A number next to a currency or unit goes to a float first."""
        action = spec("pay", "", ("count", "amount"), count={"type": "integer"}, amount={"type": "number"})
        assert await first_call("pay 20 EUR for 3", action) == ("pay", {"count": 3, "amount": 20.0})

    async def test_defaults_are_left_out(self) -> None:
        """Defaults are left out unless the text has a value."""
        assert await first_call("sales in EU", SALES) == ("sales", {"region": "EU"})

    async def test_variables(self) -> None:
        """Variables by name or, if only one matches the type, that one."""
        schema = {"type": "string", "description": "The name of a notebook variable of type DataFrame."}
        action = spec("plot", "", ("data",), data=schema)
        frames = [{"name": "df", "type": "DataFrame"}, {"name": "n", "type": "int"}]
        assert await first_call("plot it", action, variables=tuple(frames)) == ("plot", {"data": "df"})
        more = (*frames, {"name": "old", "type": "DataFrame"})
        assert await first_call("plot old", action, variables=more) == ("plot", {"data": "old"})
        assert await first_call("plot it", action, variables=more) is None


class TestQuestions:
    async def test_it_asks_and_the_answer_fills(self) -> None:
        """C33: "look up sales" asks for region; after "EU" it calls with region "EU"."""
        asked = text_of(await answer("look up sales"))
        assert "`region`" in asked
        assert "Two-letter region code" in asked
        assert inputs_of(await answer("look up sales", assistant(asked), "EU")) == [("sales", {"region": "EU"})]

    async def test_one_question_names_each(self) -> None:
        """Missing required arguments: one question naming each."""
        asked = text_of(await answer("a refund please"))
        assert "`order`" in asked
        assert "`amount`" in asked
        again = await answer("a refund please", assistant(asked), "order 7, 250 EUR")
        assert inputs_of(again) == [("refund", {"order": "7", "amount": 250.0})]

    async def test_answers_may_come_one_by_one(self) -> None:
        """What is known stays known until the rest is there."""
        asked = text_of(await answer("a refund please"))
        more = await answer("a refund please", assistant(asked), "order 7")
        assert "`amount`" in text_of(more)
        assert "`order`" not in text_of(more)
        done = await answer("a refund please", assistant(asked), "order 7", assistant(text_of(more)), "250 EUR")
        assert inputs_of(done) == [("refund", {"order": "7", "amount": 250.0})]

    async def test_plain_words_answer(self) -> None:
        """Plain words are the one text that was asked for."""
        asked = text_of(await answer("look up sales"))
        assert inputs_of(await answer("look up sales", assistant(asked), "emea, 2024")) == [
            ("sales", {"region": "emea", "year": 2024})
        ]

    async def test_another_wish_is_no_answer(self) -> None:
        """A message about something else is taken as such."""
        asked = text_of(await answer("look up sales"))
        other = await answer("look up sales", assistant(asked), "Refund order 7, 250 EUR")
        assert inputs_of(other)[0][0] == "refund"
        fact = await answer("look up sales", assistant(asked), "What is the capital of France?")
        assert inputs_of(fact) == []
        assert "can't know" in text_of(fact)

    async def test_an_answer_may_be_called_off(self) -> None:
        """ "Never mind" after a question leaves the wish, and does not ask again."""
        asked = text_of(await answer("look up sales"))
        for text in ("never mind", "Cancel that, please.", "no"):
            left = await answer("look up sales", assistant(asked), text)
            assert text_of(left) == "All right, I leave it."
            assert inputs_of(left) == []
        asked = text_of(await answer("total", actions=(SHOP,)))
        left = await answer("total", assistant(asked), "never mind", actions=(SHOP,))
        assert text_of(left) == "All right, I leave it."

    async def test_no_may_be_an_answer(self) -> None:
        """Where yes or no is asked for, "no" is the answer."""
        switch = spec("lamp", "Switch the lamp.", ("lit",), lit={"type": "boolean"})
        asked = text_of(await answer("lamp", actions=(switch,)))
        assert inputs_of(await answer("lamp", assistant(asked), "no", actions=(switch,))) == [("lamp", {"lit": False})]

    async def test_a_wish_said_anew_goes_first(self) -> None:
        """Naming the action again is no answer to the question: what it says now stands, and its name is no value."""
        asked = text_of(await answer("refund 12 EUR"))
        anew = await answer("refund 12 EUR", assistant(asked), "Refund order 7, 250 EUR")
        assert inputs_of(anew) == [("refund", {"order": "7", "amount": 250.0})]
        again = text_of(await answer("look up sales", assistant(text_of(await answer("look up sales"))), "sales"))
        assert "`region`" in again

    async def test_the_question_says_what_was_understood(self) -> None:
        """What was read already stands in the question, so that a wrong reading can be seen."""
        assert "order is `20`" in text_of(await answer("refund order 20"))

    async def test_polite_answers(self) -> None:
        """An answer's small words are not part of it."""
        asked = text_of(await answer("look up sales"))
        for text in ("in emea", "emea please", "For emea."):
            assert inputs_of(await answer("look up sales", assistant(asked), text)) == [("sales", {"region": "emea"})]


WEATHER = spec("weather", "Look up the weather of a city.", ("city",), city={"type": "string"})
SHOP = spec("total", "Add up.", ("product",), product={"type": "string", "enum": ["tea", "coffee"]})


class TestNames:
    @pytest.mark.parametrize(
        ("text", "city"),
        [
            ("weather in Paris", "Paris"),
            ("What's the weather in New York?", "New York"),
            ("Show me the weather in 'San Juan'", "San Juan"),
            ("Weather of Kyoto. Please!", "Kyoto"),
        ],
    )
    async def test_names_are_found(self, text: str, city: str) -> None:
        """A required text may be a name within the sentence: words that begin with a capital."""
        assert await first_call(text, WEATHER) == ("weather", {"city": city})

    @pytest.mark.parametrize(
        "text", ["Weather", "Show the weather", "what's the Weather like today?", "weather. Please"]
    )
    async def test_other_words_are_no_names(self, text: str) -> None:
        """How a sentence begins, the action's own name and stop words are none: it asks."""
        assert await first_call(text, WEATHER) is None


class TestMoney:
    @pytest.mark.parametrize(
        ("text", "amount"),
        [
            ("Refund order 7, 15,50 EUR", 15.5),
            ("Refund order 7 15,50€", 15.5),
            ("Refund €1.000,50 for order 7", 1000.5),
            ("Refund order 7, 1,000.50 EUR", 1000.5),
            ("Refund order 7, 1,000 EUR", 1000.0),
            ("Refund order 7, 250 EUR", 250.0),
            ("Refund order 7, -15,50 EUR", -15.5),
        ],
    )
    async def test_amounts(self, text: str, amount: float) -> None:
        """An amount is read whole, with a decimal comma or point: half of it would be another amount."""
        assert await first_call(text, REFUND) == ("refund", {"order": "7", "amount": amount})

    async def test_lists_stay_lists(self) -> None:
        """Numbers with commas between them are several."""
        add = spec("add", "Add.", ("numbers",), numbers={"type": "array", "items": {"type": "number"}})
        assert await first_call("add 1,2,3", add) == ("add", {"numbers": [1.0, 2.0, 3.0]})
        assert await first_call("add 10, 20, 30", add) == ("add", {"numbers": [10.0, 20.0, 30.0]})


class TestFollowUps:
    async def follow(self, action: Any, first: str, then: str) -> Any:
        said = await answer(first, actions=(action,))
        found = inputs_of(await answer(first, assistant(text_of(said)), then, actions=(action,)))
        return found[0][1] if found else None

    @pytest.mark.parametrize("then", ["and coffee?", "What about coffee", "coffee please", "Now coffee!", "coffee"])
    async def test_another_value(self, then: str) -> None:
        """ "and the coffee?" calls the action before once more, with the value that is named."""
        assert await self.follow(SHOP, "total for tea", then) == {"product": "coffee"}

    async def test_names(self) -> None:
        """A name counts where the words say that they go on."""
        assert await self.follow(WEATHER, "weather in Paris", "and in Rome?") == {"city": "Rome"}
        assert await self.follow(WEATHER, "weather in Paris", "How about New York?") == {"city": "New York"}

    async def test_units(self) -> None:
        """A unit beside a number is no other word."""
        order = spec("buy", "Buy.", ("kilos",), kilos={"type": "number"})
        assert await self.follow(order, "buy 20 kg", "and 30 kg?") == {"kilos": 30.0}

    @pytest.mark.parametrize(
        "then",
        [
            "Nonsense",
            "and then?",
            "What is the capital of France?",
            "And what is the capital of France?",
            "coffee is bad",
        ],
    )
    async def test_all_else_goes_on_from_nothing(self, then: str) -> None:
        """A sentence of its own calls nothing."""
        assert await self.follow(WEATHER, "weather in Paris", then) is None
        assert await self.follow(SHOP, "total for tea", then) is None


class TestTalk:
    @pytest.mark.parametrize("text", ["hi", "Hello there!", "good morning", "How are you?", "what can you do?", "help"])
    async def test_greetings_and_questions_about_itself(self, text: str) -> None:
        """It says what it is and what each action needs, and never that it can't know a greeting."""
        said = text_of(await answer(text, actions=(SALES, SHOP)))
        assert "offline model" in said
        assert "can't know that" not in said
        assert "`product` (tea, coffee)" in said
        assert "ANTHROPIC_API_KEY" in said

    @pytest.mark.parametrize(
        ("text", "part"),
        [
            ("thanks", "You're welcome"),
            ("Undo that", "chat.undo()"),
            ("take it back", "chat.undo()"),
            ("yes", "chat.approve()"),
            ("ok, go ahead", "chat.approve()"),
            ("Approve it", "chat.approve()"),
            ("never mind", "I leave it"),
            ("are you Claude?", "offline model"),
        ],
    )
    async def test_small_talk(self, text: str, part: str) -> None:
        """Thanks, undo, approvals in words: an answer that says what to do, and no call."""
        said = await answer("look up sales in 'EU'", assistant("I'm the offline model."), text)
        assert part in text_of(said)
        assert inputs_of(said) == []

    async def test_a_description_without_a_stop(self) -> None:
        """What an action needs is a sentence of its own."""
        said = text_of(await answer("help", actions=(spec("head", "First rows", ("n",), n={"type": "integer"}),)))
        assert "- `head`: First rows. It needs `n`." in said

    async def test_actions_go_first(self) -> None:
        """A word that an action has is no small talk."""
        undo = spec("undo", "Take back the last booking.")
        assert await first_call("undo that", undo) == ("undo", {})


class TestResults:
    async def told(self, output: Any) -> str:
        items = await answer(
            "sales EU", assistant("offline model", call("c1", "sales")), results(("c1", output), name="sales")
        )
        assert items[-1] == StepEnd("stop", end_of(items).usage)
        assert inputs_of(items) == []
        return text_of(items)

    async def test_objects_are_a_table(self) -> None:
        """Lists of objects come back as a Markdown table of at most 10 rows."""
        text = await self.told([{"month": f"m|{n}", "sold": n} for n in range(12)])
        assert "12 rows" in text
        assert "| month | sold |" in text
        assert text.count("\n| m\\|") == 10
        assert "2 more" in text

    async def test_columns_of_numbers_stand_to_the_right(self) -> None:
        """What a CSV file gives as text is a number all the same; a mixed column is text."""
        text = await self.told(
            [{"name": "tea", "sold": "1250.0", "mixed": 1}, {"name": "2", "sold": 3, "mixed": "two"}]
        )
        assert "\n|:--|--:|:--|\n" in text

    @pytest.mark.parametrize(
        ("output", "part"),
        [
            (42, "**42**"),
            (None, "nothing"),
            ([], "empty list"),
            (["a", "b"], "- a\n- b"),
            ({"total": 3}, "| total | 3 |"),
            ({"type": "text", "value": "All good"}, "All good"),
            ({"type": "json", "value": {"object": "f_1", "type": "DataFrame", "summary": "3 x 2"}}, "3 x 2"),
            (
                '{"object":"f_1","type":"Figure","summary":"6 x 4 in"}\n[image: image/png, 9 bytes]',
                "card shows the picture",
            ),
            ('{"object": broken', '{"object": broken'),
            ({"type": "error-text", "value": "no such region"}, "failed: no such region"),
            ({"type": "execution-denied", "reason": "too much"}, "rejected"),
        ],
    )
    async def test_what_came_back(self, output: Any, part: str) -> None:
        """It says what came back; after an error or rejection it says so plainly, and does not repeat."""
        assert part in await self.told(output)

    async def test_a_rejection_by_its_answer(self) -> None:
        """A rejected call is told as such, with the reason."""
        request = {"type": "tool-approval-request", "approvalId": "a", "toolCallId": "c1"}
        response = {"type": "tool-approval-response", "approvalId": "a", "approved": False, "reason": "too much"}
        message = results(("c1", {"type": "error-text", "value": "too much"}), name="refund")
        message["content"].insert(0, response)
        items = await answer("Refund order 7, 250 EUR", assistant(call("c1", "refund"), request), message)
        assert "You rejected" in text_of(items)
        assert "too much" in text_of(items)
        assert inputs_of(items) == []

    async def test_the_next_message_may_call_again(self) -> None:
        """At most once per user message: another message calls anew."""
        done = [assistant("x", call("c1", "sales")), results(("c1", 1), name="sales"), assistant("offline model")]
        assert inputs_of(await answer("sales EU", *done, user("sales US"))) == [("sales", {"region": "US"})]
