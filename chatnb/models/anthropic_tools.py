"""The tools of a request to Anthropic's API: names and schemas that it takes, and the way back.

The API refuses a whole request for one tool whose name or whose arguments' names have other characters than it knows,
or whose schema is a union at its root. Functions may have such arguments (`größe`), and servers of others such schemas.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chatnb.models.anthropic_blocks import Block, clean_id, unused_name
from chatnb.models.port import ActionSpec

_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_UNIONS = ("anyOf", "oneOf", "allOf")
_MAX_DEPTH = 16


@dataclass(frozen=True)
class AnthropicTools:
    """The tools as they are sent.

    Attributes:
        blocks: What is sent.
        names: The action's own name by the name that was sent.
        arguments: Per sent name of a tool: the argument's own name by the one that was sent, where they differ.
    """

    blocks: list[Block] = field(default_factory=list)
    names: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def rename_inputs(self, messages: Sequence[Block]) -> None:
        """Give the calls of a history the arguments' names that are sent now. In place."""
        if not self.arguments:
            return
        for message in messages:
            for block in message["content"]:
                if block["type"] == "tool_use" and block["name"] in self.arguments:
                    sent = {own: name for name, own in self.arguments[block["name"]].items()}
                    block["input"] = {sent.get(key, key): value for key, value in block["input"].items()}


def anthropic_tools(specs: Sequence[ActionSpec]) -> AnthropicTools:
    """Make the tools of a request, in order."""
    blocks: list[Block] = []
    names: dict[str, str] = {}
    arguments: dict[str, Mapping[str, str]] = {}
    for spec in specs:
        sent = unused_name(clean_id(spec.name, "unnamed"), set(names))
        names[sent] = spec.name
        schema, renamed = _with_plain_keys(_without_root_union(spec.input_schema))
        if renamed:
            arguments[sent] = renamed
        tool: Block = {"name": sent, "input_schema": {**schema, "type": "object"}}
        if spec.description.strip():
            tool["description"] = spec.description
        blocks.append(tool)
    return AnthropicTools(blocks, names, arguments)


def _without_root_union(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """One object in place of a union: all properties of its members; needed is what every member needs.

    It says less than the union did. What a call brings is validated by the full schema anyway.
    """
    depth = 0
    while any(key in schema for key in _UNIONS) and depth < _MAX_DEPTH:
        schema = _merge_union(schema)
        depth += 1
    return schema


def _merge_union(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    merged = {key: value for key, value in schema.items() if key not in _UNIONS}
    properties: dict[str, Any] = dict(merged.get("properties") or {})
    required = list(merged.get("required") or ())
    for key in _UNIONS:
        members = [_resolved(member, schema) for member in schema.get(key) or () if isinstance(member, Mapping)]
        members = [_without_root_union({**member, "$defs": schema.get("$defs", {})}) for member in members]
        for member in members:
            for name, child in (member.get("properties") or {}).items():
                properties.setdefault(name, child)
        needed = [set(member.get("required") or ()) for member in members]
        if needed:
            common = set.union(*needed) if key == "allOf" else set.intersection(*needed)
            required.extend(name for name in properties if name in common and name not in required)
    merged["properties"] = properties
    if required:
        merged["required"] = required
    return merged


def _resolved(member: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    target: Any = root
    reference = member.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return member
    for key in reference[2:].split("/"):
        target = target.get(key) if isinstance(target, Mapping) else None
    return target if isinstance(target, Mapping) else {}


def _with_plain_keys(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, str]]:
    """The schema with the arguments' names that the API takes, and the own name by each that differs."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or all(_KEY.fullmatch(str(name)) for name in properties):
        return schema, {}
    used = {name for name in properties if _KEY.fullmatch(name)}
    sent_names = {name: name if name in used else _plain_key(name, used) for name in properties}
    changed = {
        **schema,
        "properties": {
            sent: child if sent == name else _told(name, child)
            for name, child in properties.items()
            for sent in (sent_names[name],)
        },
    }
    if "required" in schema:
        changed["required"] = [sent_names.get(name, name) for name in schema["required"]]
    return changed, {sent: name for name, sent in sent_names.items() if sent != name}


def _plain_key(name: str, used: set[str]) -> str:
    cleaned = re.sub(r"[^a-zA-Z0-9_.-]", "_", name)[:60] or "argument"
    candidate, number = cleaned, 1
    while candidate in used:
        number += 1
        candidate = f"{cleaned}_{number}"
    used.add(candidate)
    return candidate


def _told(name: str, child: Any) -> Any:
    """The argument's schema with its real name in the description."""
    if not isinstance(child, Mapping):
        return child
    description = str(child.get("description") or "").strip()
    return {**child, "description": f"{name}: {description}" if description else name}
