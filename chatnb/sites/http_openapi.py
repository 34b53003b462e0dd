"""The OpenAPI description of the action routes, made of the actions' own schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..actions import Action

if TYPE_CHECKING:
    from ..agent import Agent

ERROR = {
    "type": "object",
    "properties": {
        "error": {"type": "string"},
        "errorCode": {"type": "string"},
        "details": {},
        "effect": {"enum": ["committed", "none"]},
        "callHash": {"type": "string"},
    },
    "required": ["error", "errorCode"],
}
PROBLEMS = {
    "400": "The arguments or the body are not valid.",
    "401": "Nobody is signed in.",
    "403": "It is not allowed, or the page has to prove itself.",
    "404": "There is nothing here.",
    "405": "The action takes another verb.",
    "409": "A person has to approve the call, or it could not be done now.",
    "413": "The body is too large.",
    "415": "The body is not declared as JSON.",
    "499": "The call was stopped.",
    "500": "The action failed.",
    "504": "The action took too long.",
}


def describe(agent: Agent, routes: Mapping[str, Mapping[str, Action]]) -> dict[str, Any]:
    """Return the description: OpenAPI 3.1."""
    return {
        "openapi": "3.1.0",
        "info": {"title": agent.name, "version": __version__},
        "paths": {
            path: {verb.lower(): _operation(action) for verb, action in verbs.items()} for path, verbs in routes.items()
        },
        "components": {"schemas": {"Error": ERROR}},
    }


def _operation(action: Action) -> dict[str, Any]:
    schema, definitions = _without_definitions(action)
    operation: dict[str, Any] = {
        "operationId": action.name,
        "summary": action.title or action.name,
        "description": action.description,
        "responses": {
            "200": {
                "description": "It was done.",
                "content": {"application/json": {"schema": _result()}},
            },
            **{status: _problem(text) for status, text in PROBLEMS.items()},
        },
    }
    if action.route is not None and action.route.method == "GET":
        required = schema.get("required", [])
        operation["parameters"] = [
            {"name": name, "in": "query", "required": name in required, "schema": {**child, **definitions}}
            for name, child in schema["properties"].items()
        ]
    else:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": {**schema, **definitions}}},
        }
    return operation


def _without_definitions(action: Action) -> tuple[dict[str, Any], dict[str, Any]]:
    schema = json.loads(json.dumps(action.input_schema))
    definitions = schema.pop("$defs", None)
    return schema, {"$defs": definitions} if definitions else {}


def _result() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"result": {}, "callHash": {"type": "string"}},
        "required": ["result", "callHash"],
    }


def _problem(text: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": text, "content": {"application/json": {"schema": schema}}}
