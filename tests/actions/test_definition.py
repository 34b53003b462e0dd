from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import pytest
from pydantic import BaseModel, Field

from chatnb._json import dumps
from chatnb.actions import Action, ActionContext, Catalog, Variable, action, action_errors
from chatnb.errors import ActionDefinitionError

T = TypeVar("T")


def plain(region: str, year: int = 2025) -> list[dict[str, Any]]:
    """Look up sales.

    More text.

    Args:
        region: Two-letter region code.
        year: Calendar year.
        ghost: No parameter.
    """
    return []


class Frame:
    """A class without JSON Schema."""


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Node(BaseModel):
    name: str
    children: list[Node] = []


class TestOptions:
    def test_defaults_are_those_of_the_table(self) -> None:
        """Section 1: what `@action` without options is."""
        made = Action(plain)
        assert (made.name, made.title, made.description) == ("plain", None, "Look up sales.\n\nMore text.")
        assert (made.fixed_read, made.parallel_safe, made.ends_turn) == (False, False, False)
        assert made.route is not None
        assert (made.route.method, made.route.path, made.route.max_body_bytes) == ("POST", "/actions/plain", 1048576)
        assert (made.agent_tool, made.run_in, made.timeout, made.error_codes) == (True, "kernel", None, ())

    @pytest.mark.parametrize(
        "options",
        [
            {"read_only": "yes"},
            {"read_only": "no"},
            {"parallel_safe": 1},
            {"ends_turn": "x"},
            {"needs_approval": "yes"},
            {"authorize": True},
            {"output": "lax"},
            {"output_schema": Frame},
            {"output_schema": "text"},
            {"output_schema": lambda: 1},
            {"errors": {"a"}},
            {"http": "PATCH"},
            {"http": {"verb": "GET"}},
            {"agent_tool": None},
            {"mcp_tool": "yes"},
            {"mcp_output_schema": None},
            {"mcp_annotations": {"niceHint": True}},
            {"mcp_annotations": {"readOnlyHint": 1}},
            {"ui_only": 0},
            {"to_model_output": 3},
            {"run_in": "process"},
            {"timeout": 0},
            {"timeout": True},
            {"timeout": 10**400},
            {"max_result_chars": 199},
            {"audit": "all"},
            {"audit": {"everything": True}},
            {"idempotent": "y"},
            {"name": "1x"},
            {"title": 5},
            {"description": 5},
        ],
        ids=lambda options: str(options).partition(" at 0x")[0],  # the same in each process
    )
    def test_a_wrong_type_raises_and_names_the_option(self, options: dict[str, Any]) -> None:
        """C12: a value of the wrong type for any field raises, naming action and option."""
        with pytest.raises(ActionDefinitionError) as caught:
            Action(plain, **options)
        option = next(iter(options))
        assert repr(option) in str(caught.value) or option in str(caught.value)

    @pytest.mark.parametrize(
        ("options", "option"),
        [
            ({"http": "GET", "read_only": False}, "http"),
            ({"ends_turn": True, "parallel_safe": True}, "ends_turn"),
            ({"ui_only": True, "mcp_tool": True}, "ui_only"),
            ({"ui_only": True, "http": False}, "ui_only"),
            ({"ui_only": True, "agent_tool": True}, "agent_tool"),
            ({"idempotent": True, "read_only": True}, "idempotent"),
            ({"mcp_output_schema": True, "output": "warn"}, "mcp_output_schema"),
            ({"needs_approval": lambda a, b, c: True}, "needs_approval"),
            ({"authorize": lambda a, b, c: True}, "authorize"),
        ],
    )
    def test_contradictions_raise(self, options: dict[str, Any], option: str) -> None:
        """C12, 1.1: options that exclude each other raise, naming the option."""
        with pytest.raises(ActionDefinitionError, match=option):
            Action(plain, **options)

    def test_every_option_can_be_read(self) -> None:
        """DESIGN, section 2: an action's options are its attributes."""
        codes = action_errors("gone")
        given: dict[str, Any] = {
            "title": "Plain",
            "errors": codes,
            "http": "PUT",
            "mcp_tool": True,
            "mcp_annotations": {"destructiveHint": True},
            "to_model_output": str,
            "max_result_chars": 300,
            "audit": False,
            "timeout": 2.5,
        }
        made = Action(plain, **given)
        assert {name: getattr(made, name) for name in given} == given
        assert made.mcp_output_schema is False

    def test_get_means_read(self) -> None:
        """Section 1: without a bool, GET makes an action a read; an explicit bool wins."""
        assert Action(plain, http="GET").read_only is True
        assert Action(plain).read_only is None
        assert Action(plain, http="GET").fixed_read is True
        assert Action(plain, http="POST", read_only=True).fixed_read is True

    def test_mcp_output_schema_needs_a_schema(self) -> None:
        """1.1: `mcp_output_schema` without an output schema raises."""

        def silent(a: int):  # type: ignore[no-untyped-def]
            """Say nothing."""

        with pytest.raises(ActionDefinitionError, match="mcp_output_schema"):
            Action(silent, mcp_output_schema=True)

    def test_a_scalar_root_cannot_be_advertised(self) -> None:
        """11.3: the root of an advertised output is an object, a union of objects, or an array."""

        def number() -> int:
            """Count."""
            return 1

        with pytest.raises(ActionDefinitionError, match="mcp_output_schema"):
            Action(number, mcp_output_schema=True)
        assert Action(plain, mcp_output_schema=True).output is not None

    def test_error_codes_keep_their_order(self) -> None:
        """Section 1: declared errors are published in order."""
        assert Action(plain, errors=action_errors("locked", "gone")).error_codes == ("locked", "gone")

    def test_a_missing_description_warns_once(self) -> None:
        """Section 1: without a docstring one UserWarning; the name with spaces is used."""

        def close_all_doors() -> None: ...

        with pytest.warns(UserWarning, match="close_all_doors") as caught:
            made = Action(close_all_doors)
        assert len(caught) == 1
        assert made.description == "close all doors"

    def test_two_actions_of_one_name_cannot_be_in_an_agent(self) -> None:
        """Section 1: names are unique in an agent."""
        with pytest.raises(ActionDefinitionError, match="plain"):
            Catalog.of([plain, Action(plain)])

    def test_plain_functions_become_actions(self) -> None:
        """A catalog wraps functions and keeps the order."""
        assert list(Catalog.of([Action(plain, name="b"), plain])) == ["b", "plain"]


class TestFunctions:
    def test_generators_positional_only_and_stars_raise(self) -> None:
        """1.1: what no schema can say raises at definition."""

        def generator() -> Iterator[int]:
            yield 1

        def positional(a: int, /) -> None: ...
        def star(*args: int) -> None: ...
        def stars(**kwargs: int) -> None: ...
        def two(a: ActionContext, b: ActionContext | None) -> None: ...

        for function in (generator, positional, star, stars, two):
            with pytest.raises(ActionDefinitionError):
                Action(function, description="Do.")

    def test_a_name_that_cannot_be_derived_raises(self) -> None:
        """1.1: a lambda has no name of its own."""
        with pytest.raises(ActionDefinitionError, match="name"):
            Action(lambda: 1)

    def test_async_does_not_go_to_an_executor(self) -> None:
        """Section 1: an async function with an executor raises."""

        async def work() -> None:
            """Work."""

        with (
            concurrent.futures.ThreadPoolExecutor(1) as pool,
            pytest.raises(ActionDefinitionError, match="run_in"),
        ):
            Action(work, run_in=pool)

    def test_a_callable_parameter_raises(self) -> None:
        """C47: `fn: Callable` raises, naming the parameter."""

        def bare(fn: Callable) -> None:  # type: ignore[type-arg]
            """Call it."""

        def typed(fn: Callable[[int], int] | None) -> None:
            """Call it."""

        def lazy(fn: Iterator[int]) -> None:
            """Walk it."""

        def variable(fn: T) -> None:
            """Take it."""

        def nested(fn: dict[str, T | int]) -> None:
            """Take them."""

        for function in (bare, typed, lazy, variable, nested):
            with pytest.raises(ActionDefinitionError, match="'fn'"):
                Action(function)

    def test_a_default_is_plain_data(self) -> None:
        """1.1: a default that is not plain data raises."""

        def f(a: Any = {1, 2}) -> None:  # noqa: B006
            """Do."""

        def g(a: str = "half \ud800") -> None:
            """Do."""

        for function in (f, g):
            with pytest.raises(ActionDefinitionError, match="default"):
                Action(function)

    def test_text_annotations_see_the_place_of_definition(self) -> None:
        """1.2: a class of the enclosing function can be named, also by a text annotation."""

        class Local(BaseModel):
            n: int

        @action
        def f(a: Local) -> None:
            """Do."""

        assert f.input_schema["properties"]["a"]["properties"]["n"]["type"] == "integer"

    def test_an_unknown_annotation_names_itself(self) -> None:
        """1.1: an annotation that can't be resolved raises, with its name."""

        def f(a: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821
            """Do."""

        with pytest.raises(ActionDefinitionError, match="Nowhere"):
            Action(f)


class TestVariables:
    def test_a_class_without_schema_is_a_variable(self) -> None:
        """C46: the definition is fine and the schema shows a string that names a variable."""

        def f(
            df: Frame,
            other: Frame | None = None,
            rows: Annotated[list[int] | None, Variable()] = None,
            more: Annotated[dict[str, int], Variable()] | list[int] | None = None,
        ) -> None:
            """Use a frame."""

        schema = Action(f).input_schema
        assert schema["properties"]["df"]["type"] == "string"
        assert "Frame" in schema["properties"]["df"]["description"]
        assert schema["required"] == ["df"]
        assert [p.variable is not None for p in Action(f).signature.parameters] == [True] * 4
        wanted = Action(f).signature.parameters[3].variable
        assert wanted is not None
        assert (wanted.types, wanted.optional) == ((dict, list), True)

    def test_the_snapshot_holds_the_name(self) -> None:
        """C46: in snapshot and hash it is the name."""

        def f(df: Frame) -> None:
            """Use a frame."""

        assert Action(f).prepare({"df": "orders"}).args == {"df": "orders"}


class TestSchema:
    def test_one_property_per_parameter_in_order(self) -> None:
        """1.2: properties in signature order; no default means required; unknown arguments are refused."""
        assert Action(plain).input_schema == {
            "type": "object",
            "properties": {
                "region": {"description": "Two-letter region code.", "type": "string"},
                "year": {"default": 2025, "description": "Calendar year.", "type": "integer"},
            },
            "required": ["region"],
            "additionalProperties": False,
        }

    def test_the_context_is_in_no_schema(self) -> None:
        """1.2: an ActionContext is supplied."""

        def f(a: int, ctx: ActionContext | None = None) -> None:
            """Do."""

        made = Action(f)
        assert list(made.input_schema["properties"]) == ["a"]
        assert made.signature.context == "ctx"

    def test_field_wins_over_the_docstring(self) -> None:
        """1.2: `Field(description=)` wins; `Annotated` constraints are honoured."""

        def f(a: Annotated[int, Field(description="mine", ge=1)]) -> None:
            """Do.

            Args:
                a: Theirs.
            """

        assert Action(f).input_schema["properties"]["a"] == {"description": "mine", "minimum": 1, "type": "integer"}

    @pytest.mark.parametrize(
        "text",
        [
            "Do it.\n\n:param a: The a.\n:returns: Nothing.\n",
            "Do it.\n\nParameters\n----------\na : int\n    The a.\n\nReturns\n-------\nNone\n",
            "Do it.\n\nArgs:\n    a: The a.\n\nReturns:\n    Nothing.\n",
        ],
        ids=["sphinx", "numpy", "google"],
    )
    def test_docstrings_of_three_styles(self, text: str) -> None:
        """1.2: argument descriptions come from Google, NumPy and Sphinx docstrings."""

        def f(a: int) -> None: ...

        f.__doc__ = text
        made = Action(f)
        assert made.description == "Do it."
        assert made.input_schema["properties"]["a"]["description"] == "The a."

    def test_names_that_models_cannot_have(self) -> None:
        """1.2: a parameter may be called like anything."""

        def f(schema: int, _private: str, model_config: bool, json: float = 1.0) -> None:
            """Do."""

        made = Action(f)
        assert list(made.input_schema["properties"]) == ["schema", "_private", "model_config", "json"]
        args = made.prepare({"schema": 1, "_private": "x", "model_config": True}).args
        assert args == {"schema": 1, "_private": "x", "model_config": True, "json": 1.0}

    def test_no_annotation_is_any_json(self) -> None:
        """1.2, 1.3: no annotation means any value, advertised as the union of all JSON types."""

        def f(a):  # type: ignore[no-untyped-def]
            """Do."""

        assert Action(f).input_schema["properties"]["a"]["type"] == [
            "string",
            "number",
            "boolean",
            "object",
            "array",
            "null",
        ]

    def test_portable_form(self) -> None:
        """1.3: oneOf becomes anyOf, prefixItems items with bounds, references are inlined, titles go."""

        class Cat(BaseModel):
            kind: Literal["cat"]

        class Dog(BaseModel):
            kind: Literal["dog"]

        def f(
            pet: Annotated[Cat | Dog, Field(discriminator="kind")],
            pair: tuple[int, str],
            code: Annotated[str, Field(pattern="^(?=a)b")],
            colour: Colour = Colour.RED,
        ) -> None:
            """Do."""

        properties = Action(f).input_schema["properties"]
        assert "discriminator" not in properties["pet"]
        assert [m["properties"]["kind"]["const"] for m in properties["pet"]["anyOf"]] == ["cat", "dog"]
        assert all("title" not in m for m in properties["pet"]["anyOf"])
        assert properties["pair"] == {
            "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "maxItems": 2,
            "minItems": 2,
            "type": "array",
        }
        assert "pattern" not in properties["code"]
        assert properties["colour"] == {"default": "red", "enum": ["red", "blue"], "type": "string"}

    def test_recursion_keeps_its_definition(self) -> None:
        """1.3: references that do not recurse are inlined; recursive ones stay."""

        def f(tree: Node) -> None:
            """Do."""

        schema = Action(f).input_schema
        assert schema["properties"]["tree"] == {"$ref": "#/$defs/Node"}
        assert schema["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}

    def test_defaults_stay_verbatim(self) -> None:
        """1.3: only subschema positions are walked."""

        def f(a: dict[str, Any] = {"oneOf": 1, "title": "x", "not": 2}) -> None:  # noqa: B006
            """Do."""

        assert Action(f).input_schema["properties"]["a"]["default"] == {"oneOf": 1, "title": "x", "not": 2}

    def test_the_same_definition_gives_the_same_bytes(self) -> None:
        """1.3: byte-stable."""
        assert dumps(Action(plain).input_schema) == dumps(Action(plain).input_schema)

    def test_a_type_of_data_that_is_not_plain_warns(self) -> None:
        """1.2: set, Path, Decimal and bytes warn at definition, naming the parameter."""
        for kind in (set[str], Path, Decimal, bytes, list[Decimal]):

            def f(odd: Any) -> None:
                """Do."""

            f.__annotations__["odd"] = kind
            with pytest.warns(UserWarning, match="'odd'"):
                Action(f)
