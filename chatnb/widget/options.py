"""What a page is told of a widget's options, and of what its agent offers (`Options` of the protocol)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._json import JsonValue
from ..turns.records import ClientTool
from . import budget
from .assets import find_extras
from .cutting import escaped
from .seam import ChatSeam
from .settings import Settings
from .view_form import Form, ViewForm

OFFLINE_NOTE = "The offline model answers: it needs no key and knows the actions of this notebook, nothing else."
LONGEST_HELP = 160


@dataclass(frozen=True, slots=True)
class _Described:
    """A catalog, as a page is told of it."""

    catalog: Mapping[str, Any]
    help: str
    actions: list[JsonValue]


class OptionsForm:
    """Makes the options of one widget.

    Args:
        settings: Its fixed options.
        form: Where long scripts go.
    """

    def __init__(self, settings: Settings, form: ViewForm) -> None:
        self._settings = settings
        self._form = form
        self._tools = _describe_tools(settings.client_tools, form)
        self._actions: _Described | None = None

    def options(self, live: Mapping[str, Any], seam: ChatSeam) -> Form:
        """Return the options.

        Args:
            live: Those that may change, by name.
            seam: The chat.
        """
        settings = self._settings
        described = self._described(seam.actions)
        live = self._form.clean(dict(live))
        return {
            "chatId": seam.chat.id,
            "title": budget.shortened(live["title"] or seam.agent_name, budget.TEXT),
            "help": described.help,
            "height": live["height"],
            "theme": live["theme"],
            "placeholder": live["placeholder"] and budget.shortened(live["placeholder"], budget.TEXT),
            "locale": settings.locale,
            "suggestions": budget.first_that_fit(live["suggestions"], budget.SUGGESTIONS),
            "modelNote": OFFLINE_NOTE if getattr(seam.model, "name", None) == "offline" else None,
            "allowAttachments": settings.allow_attachments,
            "maxAttachmentBytes": settings.max_attachment_bytes,
            "autoContinue": settings.auto_continue,
            "transcript": settings.transcript,
            "actions": described.actions,
            "clientTools": self._tools,
            "mentions": seam.has_mentions,
            "extras": find_extras(),
        }

    def _described(self, actions: Mapping[str, Any]) -> _Described:
        # Schemas are long and change only with the definition.
        if self._actions is None or self._actions.catalog is not actions:
            tools = {name: action for name, action in actions.items() if action.agent_tool}
            self._actions = _Described(
                actions, self._form.text(help_line(tools)), self._form.clean(_describe_actions(actions))
            )
        return self._actions


def help_line(actions: Mapping[str, Any]) -> str:
    """Return one line on what an agent can do: what its actions say of themselves, or their names if that is long."""
    told = [
        str(action.description or "").split("\n")[0].split(". ")[0].strip().rstrip(".") for action in actions.values()
    ]
    line = " ".join(f"{text}." for text in told)
    if told and all(told) and len(line) <= LONGEST_HELP:
        return line
    names = [(action.title or name).replace("_", " ") for name, action in actions.items()]
    if not names:
        return "Ask a question to begin."
    if len(names) > 5:
        return f"It can use {', '.join(names[:4])} and {len(names) - 4} more actions."
    return f"It can use {', '.join(names[:-1])} and {names[-1]}." if len(names) > 1 else f"It can use {names[0]}."


def _describe_actions(actions: Mapping[str, Any]) -> list[JsonValue]:
    described: list[JsonValue] = []
    room = budget.SCHEMAS
    for name, action in actions.items():
        one: Form = {
            "name": name,
            "title": action.title or name,
            "description": (action.description or "")[:500],
            "schema": action.input_schema,
            "gated": action.needs_approval is not False,
        }
        if escaped(one) > room:  # a form is a box for JSON then
            one |= {"description": "", "schema": {"type": "object"}}
        room -= escaped(one)
        if room > -budget.CLIENT_TOOLS:
            described.append(one)
    return described


def _describe_tools(tools: Sequence[ClientTool], form: ViewForm) -> list[JsonValue]:
    """Return the client tools: a long script or schema goes beside the frames."""
    room = budget.CLIENT_TOOLS // max(1, len(tools))
    described: list[JsonValue] = []
    for tool in tools:
        one: Form = form.clean({**tool.to_json(), "js": tool.js, "form": tool.form})
        if escaped(one) > room:
            one["description"] = budget.shortened(one["description"], 500)
            if escaped(one["parameters"]) > room // 2:
                one["parameters"] = {"type": "object"}
            one["js"] = tool.js and form.script(tool.js)
            if isinstance(tool.form, Mapping) and escaped(one["form"]) > room // 2:
                one["form"] = True
        described.append(one)
    return described
