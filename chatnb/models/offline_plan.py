"""What the offline model does next: worked out of the messages alone (spec/notebook.md, section 8)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chatnb.models import offline_texts as texts
from chatnb.models.anthropic_blocks import content_items
from chatnb.models.offline_arguments import UNITS, find_arguments, missing_arguments
from chatnb.models.offline_talk import TalkKind, kind_of_talk, small_talk
from chatnb.models.offline_words import choices, choose, parameters, split_words
from chatnb.models.port import ActionSpec, ModelMessage, ModelRequest, is_ephemeral

_ASKED = re.compile(re.escape(texts.ASKING).replace(re.escape("{name}"), "([^`]+)"))
_MAX_DEPTH = 20
_FOLLOWS = re.compile(r"\W*(?:and|also|now|then|what about|how about|the same (?:for|with)|same (?:for|with))\b", re.I)


@dataclass(frozen=True)
class Plan:
    """One step of the offline model.

    Attributes:
        text: What it says.
        call: The action to call then, with its arguments, or None.
    """

    text: str = ""
    call: tuple[str, dict[str, Any]] | None = None


@dataclass(frozen=True)
class _Intent:
    """What a user message asks for, with the questions before it taken into account."""

    actions: tuple[ActionSpec, ...] = ()
    arguments: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    tied: tuple[ActionSpec, ...] = ()
    text: str = ""
    talk: TalkKind | None = None


def make_plan(request: ModelRequest, messages: Sequence[ModelMessage]) -> Plan:
    """Decide what to say and what to call.

    Args:
        request: The request, for its actions and variables.
        messages: The history up to the point where this step begins.
    """
    is_introduced = any(texts.OWN_NAME in said for message in messages for said in _texts(message, "assistant"))
    index = _last_user(messages)
    if index is None:
        return Plan(texts.cannot_know(request.actions, is_introduced=is_introduced))
    intent = _intent(request, messages[: index + 1])
    since = messages[index + 1 :]
    called = {str(item.get("toolName")) for item in _items(since, "assistant", "tool-call")}
    told = "\n\n".join(_tell_newest(since))
    waiting = [spec for spec in intent.actions if spec.name not in called]
    call: tuple[str, dict[str, Any]] | None = None
    if waiting:
        arguments = intent.arguments[waiting[0].name]
        missing = missing_arguments(waiting[0], arguments)
        if missing:
            told = _joined(told, texts.ask_for(waiting[0], missing, arguments))
        else:
            told = _joined(told, texts.announce(waiting[0]))
            call = (waiting[0].name, arguments)
    elif not called:
        if intent.talk is not None:
            return Plan(small_talk(intent.talk, request.actions, is_introduced=is_introduced))
        if not intent.tied:
            sample = texts.sample_for(split_words(intent.text))
            if sample is None:
                return Plan(texts.cannot_know(request.actions, is_introduced=is_introduced))
            told = sample.strip()
        else:
            told = texts.ask_which(intent.tied)
    return Plan(told if is_introduced else _joined(texts.INTRODUCTION, told), call)


def _joined(one: str, other: str) -> str:
    return f"{one}\n\n{other}" if one else other


def _texts(message: ModelMessage, role: str) -> Iterator[str]:
    if message.get("role") == role:
        for item in content_items(message):
            text = item.get("text")
            if item.get("type") == "text" and isinstance(text, str) and text.strip() and not is_ephemeral(item):
                yield text


def _items(messages: Sequence[ModelMessage], role: str, kind: str) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        if message.get("role") == role:
            yield from (item for item in content_items(message) if item.get("type") == kind)


def _user_text(message: ModelMessage) -> str:
    """The user's own words: the first text that is not blank and not of this request alone."""
    return next(_texts(message, "user"), "")


def _last_user(messages: Sequence[ModelMessage]) -> int | None:
    return next((i for i in range(len(messages) - 1, -1, -1) if _user_text(messages[i])), None)


def _intent(request: ModelRequest, messages: Sequence[ModelMessage], depth: int = 0) -> _Intent:
    """What the last message, the user's, asks for; an answer to a question completes what was asked before."""
    text = _user_text(messages[-1])
    before = _last_user(messages[:-1])
    if before is not None and depth < _MAX_DEPTH:
        question = "\n".join(said for message in messages[before + 1 : -1] for said in _texts(message, "assistant"))
        asked = _ASKED.search(question)
        if asked is not None or texts.WHICH in question:
            prior = _intent(request, messages[: before + 1], depth + 1)
            answered = _answer(request, prior, asked[1], text) if asked else _pick(request, prior, text)
            if answered is not None:
                return answered
    choice = choose(text, request.actions)
    if choice.actions or choice.tied:
        return _Intent(choice.actions, _arguments(request, choice.actions, text), choice.tied, text)
    talk = kind_of_talk(text)
    if talk is None and before is not None and depth < _MAX_DEPTH:
        followed = _follow_up(request, _intent(request, messages[: before + 1], depth + 1), text)
        if followed is not None:
            return followed
    return _Intent(text=text, talk=talk)


def _follow_up(request: ModelRequest, prior: _Intent, text: str) -> _Intent | None:
    """The action before once more, with what "and the South?" names in its place; None if it names nothing."""
    if len(prior.actions) != 1:
        return None
    spec = prior.actions[0]
    lead = _FOLLOWS.match(text)
    rest = text[lead.end() :] if lead else text
    found = find_arguments(spec, rest, variables=request.variables or (), is_follow_up=True)
    if lead is None:  # a bare value: only one that is listed, and nothing beside it
        schemas = parameters(spec)
        found = {name: value for name, value in found.items() if choices(schemas[name])}
    # Any other word makes it a sentence of its own: "and what is the capital of France?" is about no weather.
    named = {word for value in found.values() for word in split_words(str(value))}
    if not found or set(split_words(rest)) - named - UNITS:
        return None
    return _Intent((spec,), {spec.name: {**prior.arguments[spec.name], **found}}, (), text)


def _answer(request: ModelRequest, prior: _Intent, name: str, text: str) -> _Intent | None:
    """The prior intent with the arguments of an answer, or None if the text is about something else."""
    names = [spec.name for spec in prior.actions]
    if name not in names:
        return None
    spec = prior.actions[names.index(name)]
    other = choose(text, request.actions).actions
    if other and spec not in other:
        return None
    known = prior.arguments[name]
    if not other and kind_of_talk(text) == "leave" and not _takes_word(spec, known, text):
        return _Intent(text=text, talk="leave")
    if other:  # it is said anew: what it says now goes before what was said then
        found = {**known, **find_arguments(spec, text, variables=request.variables or ())}
    else:
        found = find_arguments(spec, text, variables=request.variables or (), known=known, is_answer=True)
    if found == known and text.rstrip().endswith("?"):
        return None
    waiting = prior.actions[names.index(name) :]
    return _Intent(waiting, {**prior.arguments, name: found}, (), prior.text)


def _takes_word(spec: ActionSpec, known: Mapping[str, Any], text: str) -> bool:
    """Whether a word such as "no" can be the value of an argument that is missing."""
    schemas = parameters(spec)
    missing = [schemas[name] for name in missing_arguments(spec, known)]
    words = set(re.findall(r"\w+", text.lower()))
    listed = {str(value).lower() for schema in missing for value in choices(schema)}
    return bool(words & listed) or any(schema.get("type") == "boolean" for schema in missing)


def _pick(request: ModelRequest, prior: _Intent, text: str) -> _Intent | None:
    """The action that an answer picks among tied ones, with the arguments of both messages."""
    points = {spec.name: len(set(split_words(text)) & set(split_words(spec.name))) for spec in prior.tied}
    best = [spec for spec in prior.tied if points[spec.name] == max(points.values())]
    if len(best) != 1:
        return None
    both = f"{prior.text}\n{text}"
    return _Intent((best[0],), _arguments(request, (best[0],), both), (), both)


def _arguments(request: ModelRequest, specs: Sequence[ActionSpec], text: str) -> dict[str, dict[str, Any]]:
    """The arguments of each action, read from its own stretch of the text when there are several."""
    starts = [_start(spec, text) for spec in specs]
    found = {}
    for number, spec in enumerate(specs):
        begin = 0 if number == 0 else starts[number]
        end = starts[number + 1] if number + 1 < len(specs) else len(text)
        found[spec.name] = find_arguments(spec, text[begin:end], variables=request.variables or ())
    return found


def _start(spec: ActionSpec, text: str) -> int:
    names = set(split_words(spec.name))
    return next((m.start() for m in re.finditer(r"\w+", text) if set(split_words(m[0])) & names), len(text))


def _tell_newest(since: Sequence[ModelMessage]) -> list[str]:
    """What came back since the assistant last spoke, one text for each call."""
    last = max((i for i, message in enumerate(since) if message.get("role") == "assistant"), default=-1)
    requests = _items(since, "assistant", "tool-approval-request")
    asked = {item.get("approvalId"): item.get("toolCallId") for item in requests}
    newest = since[last + 1 :]
    rejected = {
        asked.get(item.get("approvalId")): item.get("reason")
        for item in _items(newest, "tool", "tool-approval-response")
        if item.get("approved") is False
    }
    told = []
    for item in _items(newest, "tool", "tool-result"):
        output = item.get("output")
        output = output if isinstance(output, Mapping) else {"type": "json", "value": output}
        call_id = item.get("toolCallId")
        told.append(
            texts.tell_result(
                str(item.get("toolName")), output, is_rejected=call_id in rejected, reason=rejected.get(call_id)
            )
        )
    return told
