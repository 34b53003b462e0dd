"""Arguments out of plain words: how the offline model fills an action's parameters (spec/notebook.md, section 8)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chatnb.models.offline_words import choices, is_stop_word, parameters, split_words
from chatnb.models.port import ActionSpec

MISSING: Any = object()
_LONGEST_ANSWER = 8

_TOKEN = re.compile(
    r"""
    (?P<quoted>```[\s\S]*?```|"[^"\n]*"|“[^”\n]*”|`[^`\n]*`|(?<!\w)'[^'\n]*'(?!\w))
    |(?P<json>\[[^\[\]\n]*\]|\{[^{}\n]*\})
    |(?P<date>\d{4}-\d{2}-\d{2}(?:T[\d:.]+(?:Z|[+-]\d{2}:?\d{2})?)?(?!\w))
    |(?P<number>[€$£¥]?[-+]?(?:(?:\d{1,3}(?:\.\d{3})+|\d+),\d{2}(?![\d,])|(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)
        (?:[€$£¥%])?(?![\w.-]*\w))
    |(?P<joined>[-+]?\d+(?:\.\d+)?(?P<unit>[A-Za-z]{1,4})(?![\w-]))
    |(?P<word>@?\w+(?:[-./#]\w+)*)
    |(?P<mark>[=:,;?!])
    """,
    re.VERBOSE,
)
_UNIT_WORDS = """
eur usd gbp chf jpy cny sek nok dkk pln aud cad nzd inr brl mxn krw euro euros dollar dollars pound pounds cent cents
percent kg g mg lb oz km m cm mm mi ft l ml h hr hour hours min minute minutes s sec second seconds ms day days week
weeks month months kb mb gb tb kw kwh
"""
UNITS = frozenset(_UNIT_WORDS.split())
_FILLERS = frozenset({"is", "of", "the", "to", "number", "no", "nr", "id", "named", "called", "was", "be", "a", "an"})
_POLITE = re.compile(r"\A(?:in|for|from|it's|it is)\s+(?=\S)|\s+please\Z", re.IGNORECASE)
_YES = frozenset({"yes", "true", "on"})
_NO = frozenset({"no", "false", "off"})
_NOT_CODE = frozenset({"I", "A", "OK", "PLEASE", "YES", "NO", "AND", "OR", "NOT", "THE"})


@dataclass
class _Token:
    kind: str
    text: str
    has_unit: bool = False
    is_used: bool = False

    @property
    def number(self) -> float | None:
        if self.kind not in ("number", "joined"):
            return None
        text = re.sub(r"[^\d.,+-]", "", self.text)
        if re.fullmatch(r"[-+]?[\d.]+,\d{2}", text):  # a decimal comma, as in 15,50 or 1.000,50
            text = text.replace(".", "").replace(",", ".")
        return float(text.replace(",", ""))

    @property
    def plain(self) -> str:
        if self.text.startswith("```"):
            return re.sub(r"\A```(?:\w+(?=\n))?\n?|\n?```\Z", "", self.text)
        return self.text[1:-1] if self.kind == "quoted" else self.text


def find_arguments(
    spec: ActionSpec,
    text: str,
    *,
    variables: Sequence[Mapping[str, Any]] = (),
    known: Mapping[str, Any] | None = None,
    is_answer: bool = False,
    is_follow_up: bool = False,
) -> dict[str, Any]:
    """Read an action's arguments out of a text.

    Args:
        spec: The action.
        text: What the user said.
        variables: The notebook variables that may be named.
        known: Arguments that stand already.
        is_answer: Whether the text answers a question for arguments; then it may be the one missing text as it stands.
        is_follow_up: Whether the text goes on from another; then its first word may be a name too.

    Returns:
        The arguments that were found, the known ones included. Defaults are left out.
    """
    return _Reader(spec, text, variables, dict(known or {}), is_follow_up=is_follow_up).read(is_answer)


def missing_arguments(spec: ActionSpec, arguments: Mapping[str, Any]) -> list[str]:
    """Required parameters without an argument, in order."""
    required = spec.input_schema.get("required") or ()
    return [name for name in parameters(spec) if name in required and name not in arguments]


class _Reader:
    def __init__(
        self,
        spec: ActionSpec,
        text: str,
        variables: Sequence[Mapping[str, Any]],
        found: dict[str, Any],
        *,
        is_follow_up: bool = False,
    ) -> None:
        self.spec = spec
        self.text = text
        self.variables = variables
        self.found = found
        self.parameters = parameters(spec)
        self.tokens = _tokens(text)
        self.action_words = set(split_words(spec.name))
        self.is_follow_up = is_follow_up
        self.takes_names = True

    def read(self, is_answer: bool) -> dict[str, Any]:
        for name in self.parameters:
            self._take(name, self._after_name(name))
        for name in self._open():
            self._take(name, self._after_noun(name))
        for name in self._open():
            if self.parameters[name].get("type") == "number":
                self._take(name, self._number(name, with_unit=True))
        self.takes_names = not is_answer
        if is_answer:
            self._take_answer()
        for name in self._open():
            self._take(name, self._by_type(name))
        return {name: self.found[name] for name in self.parameters if name in self.found}

    def _open(self) -> list[str]:
        return [name for name in self.parameters if name not in self.found]

    def _take(self, name: str, value: Any) -> None:
        if value is not MISSING:
            self.found[name] = value

    def _take_answer(self) -> None:
        """Take plain words as the one text that was asked for; codes and quotes are found by type anyway."""
        missing = missing_arguments(self.spec, self.found)
        schema = self.parameters[missing[0]] if len(missing) == 1 else {"type": "null"}
        if schema.get("type", "string") != "string" or choices(schema) or self.text.rstrip().endswith("?"):
            return
        words = [token for token in self._free("word", "quoted") if token.kind == "quoted" or _is_code(token.text)]
        answer = re.split(r"[,;\n]", self.text.strip())[0].strip(" .!'\"")
        answer = _POLITE.sub("", answer)
        if words or not answer or len(answer.split()) > _LONGEST_ANSWER:
            return
        if str(schema.get("format", "")).startswith("date") or (is_variable(schema) and not answer.isidentifier()):
            return
        self._take(missing[0], answer)

    def _after_name(self, name: str) -> Any:
        words = name.lower().split("_")
        for start in range(len(self.tokens) - len(words) + 1):
            head = self.tokens[start : start + len(words)]
            is_whole = len(words) > 1 and self.tokens[start].text.lower() == name.lower()
            if not is_whole and [token.text.lower() for token in head] != words:
                continue
            end = start + (1 if is_whole else len(words))
            value = self._value_at(name, end, is_strict=False)
            if value is not MISSING:
                for token in self.tokens[start:end]:
                    token.is_used = True
                return value
        return MISSING

    def _after_noun(self, name: str) -> Any:
        nouns = set(split_words(str(self.parameters[name].get("description") or ""))) - self.action_words
        if is_variable(self.parameters[name]):
            nouns.add("variable")
        for index, token in enumerate(self.tokens):
            if token.kind == "word" and set(split_words(token.text)) & nouns:
                value = self._value_at(name, index + 1, is_strict=True)
                if value is not MISSING:
                    return value
        return MISSING

    def _value_at(self, name: str, index: int, *, is_strict: bool) -> Any:
        """The value at a place, past fillers and `=` or `:`; strict: only what looks like a value."""
        is_explicit = False
        while index < len(self.tokens):
            token = self.tokens[index]
            if token.text in ("=", ":"):
                is_explicit = True
            elif is_explicit or token.kind != "word" or token.text.lower() not in _FILLERS:
                break
            index += 1
        if index >= len(self.tokens) or self.tokens[index].is_used or self.tokens[index].kind == "mark":
            return MISSING
        token = self.tokens[index]
        is_plain_word = token.kind == "word" and not _is_code(token.text)
        is_strict = is_strict and not is_variable(self.parameters[name])
        if is_plain_word and not is_explicit and (is_strict or is_stop_word(token.text)):
            if self.parameters[name].get("type") == "boolean" and not is_strict:
                return self._use(token, self._convert(name, token))
            return MISSING
        return self._use(token, self._convert(name, token))

    def _use(self, token: _Token, value: Any) -> Any:
        if value is not MISSING:
            token.is_used = True
        return value

    def _convert(self, name: str, token: _Token) -> Any:
        """A token as a value of the parameter's type, or `MISSING` if it can't be one."""
        schema = self.parameters[name]
        if choices(schema):
            return _choice(schema, token.plain)
        if is_variable(schema):
            plain = token.plain.removeprefix("@")
            return plain if plain.isidentifier() else MISSING
        return _convert(schema, token)

    def _free(self, *kinds: str) -> list[_Token]:
        return [token for token in self.tokens if token.kind in kinds and not token.is_used]

    def _by_type(self, name: str) -> Any:
        schema = self.parameters[name]
        if is_variable(schema):
            return self._variable(schema)
        if choices(schema):
            return self._first(name, self._free("quoted", "word", "number", "date"))
        kind = schema.get("type", "string")
        if kind == "boolean":
            answers = [token for token in self._free("word") if token.text.lower() in _YES | _NO]
            return self._first(name, answers)
        if kind in ("number", "integer"):
            return self._number(name)
        if kind in ("array", "object"):
            return self._structure(name, kind)
        if str(schema.get("format", "")).startswith("date"):
            return self._first(name, self._free("date"))
        if kind != "string":
            return MISSING
        coded = [token for token in self._free("word") if _is_code(token.text)]
        value = self._first(name, [*self._free("quoted"), *coded, *self._free("date", "number")])
        return self._named(name) if value is MISSING else value

    def _named(self, name: str) -> Any:
        """A name within the text, such as New York: words that begin with a capital, though not as a sentence does."""
        if not self.takes_names or name not in (self.spec.input_schema.get("required") or ()):
            return MISSING
        run: list[_Token] = []
        for index, token in enumerate(self.tokens):
            begins = index == 0 or self.tokens[index - 1].text in ".?!:"
            is_name = token.kind == "word" and not token.is_used and self._is_name(token.text)
            if is_name and (not begins or self.is_follow_up):
                run.append(token)
            elif run:
                break
        for token in run:
            token.is_used = True
        return " ".join(token.text for token in run) if run else MISSING

    def _is_name(self, word: str) -> bool:
        if not word[0].isupper() or len(word) < 2 or is_stop_word(word):
            return False
        return not set(split_words(word)) & self.action_words

    def _first(self, name: str, tokens: Sequence[_Token]) -> Any:
        for token in tokens:
            value = self._use(token, self._convert(name, token))
            if value is not MISSING:
                return value
        return MISSING

    def _number(self, name: str, *, with_unit: bool = False) -> Any:
        numbers = self._free("number", "joined")
        return self._first(name, [token for token in numbers if token.has_unit] if with_unit else numbers)

    def _structure(self, name: str, kind: str) -> Any:
        value = self._first(name, self._free("json"))
        if value is not MISSING or kind == "object":
            return value
        items = self.parameters[name].get("items")
        items = items if isinstance(items, Mapping) else {}
        kinds = ("number", "joined") if items.get("type") in ("number", "integer") else ("quoted", "word", "date")
        tokens = [t for t in self._free(*kinds) if t.kind != "word" or choices(items) or _is_code(t.text)]
        values = []
        for token in tokens:
            item = _choice(items, token.plain) if choices(items) else _convert(items, token)
            if self._use(token, item) is not MISSING:
                values.append(item)
        return values or MISSING

    def _variable(self, schema: Mapping[str, Any]) -> Any:
        said = {token.plain.removeprefix("@") for token in self.tokens if token.kind in ("word", "quoted")}
        fitting = [v for v in self.variables if _fits(schema, v)]
        named = [str(v["name"]) for v in [*fitting, *self.variables] if v.get("name") in said]
        if named:
            return named[0]
        return str(fitting[0]["name"]) if len(fitting) == 1 else MISSING


def is_variable(schema: Mapping[str, Any]) -> bool:
    """Whether a parameter takes the name of a notebook variable."""
    marked = any(str(key).startswith("x-") and "variable" in str(key).lower() for key in schema)
    is_text = schema.get("type", "string") == "string" and not choices(schema)
    return marked or (is_text and re.search(r"\bvariable\b", str(schema.get("description") or ""), re.I) is not None)


def _fits(schema: Mapping[str, Any], variable: Mapping[str, Any]) -> bool:
    """Whether a variable's type is named in the parameter's description; all fit where no type can be told."""
    kind = str(variable.get("type") or "").rpartition(".")[2]
    return bool(kind) and re.search(rf"\b{re.escape(kind)}\b", str(schema)) is not None


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "word"
        kind = "joined" if kind == "unit" else kind
        if kind == "joined" and match["unit"].lower() not in UNITS:
            kind = "word"
        token = _Token(kind, match[0], has_unit=kind == "joined" or match[0][0] in "€$£¥" or match[0][-1] in "€$£¥%")
        previous = tokens[-1] if tokens else None
        if previous is not None and kind == "word" and token.text.lower() in UNITS and previous.number is not None:
            previous.has_unit = token.is_used = True
        elif previous is not None and token.number is not None and previous.text in _CURRENCY_CODES:
            token.has_unit = previous.is_used = True
        tokens.append(token)
    return tokens


_CURRENCY_CODES = frozenset({"EUR", "USD", "GBP", "CHF", "JPY", "SEK", "NOK", "DKK", "PLN", "AUD", "CAD", "INR"})


def _is_code(word: str) -> bool:
    """Whether a word looks like a code: it has a digit, or capitals alone."""
    if word.upper() in _NOT_CODE:
        return False
    return any(c.isdigit() for c in word) or (word.isupper() and any(c.isalpha() for c in word))


def _choice(schema: Mapping[str, Any], text: str) -> Any:
    words = split_words(text) or [text.lower()]
    for value in choices(schema):
        if str(value).lower() == text.lower() or (isinstance(value, str) and split_words(value) == words):
            return value
    return MISSING


def _convert(schema: Mapping[str, Any], token: _Token) -> Any:
    kind = schema.get("type", "string")
    if kind == "boolean":
        low = token.plain.lower()
        return low in _YES if low in _YES | _NO else MISSING
    if kind in ("number", "integer"):
        number = token.number
        if number is None or (kind == "integer" and not number.is_integer()):
            return MISSING
        return int(number) if kind == "integer" else number
    if kind in ("array", "object"):
        return _parse_json(token.text, list if kind == "array" else dict)
    if str(schema.get("format", "")).startswith("date") and token.kind != "date":
        return MISSING
    if kind != "string":
        return MISSING
    return token.plain.removeprefix("@") if token.kind != "mark" else MISSING


def _parse_json(text: str, kind: type) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return MISSING
    return value if isinstance(value, kind) else MISSING
