"""The action routes: one request, one dispatched call, one answer (spec/actions.md, 11.1)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic_core import PydanticSerializationError, to_jsonable_python
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from .._json import JsonValue
from ..actions import Action, Identity
from ..actions.images import FIELD, entry_of, replace_drawn
from ..actions.settled import Settled
from .http_errors import CompactJson, HttpProblem, answer_error

if TYPE_CHECKING:
    from .http_site import HttpSite

UNPROVEN = frozenset({"approval_required", "ui_only_action"})


class ActionRoute:
    """One path and the actions that are served on it, by verb.

    Args:
        site: The site.
        actions: By verb.
    """

    def __init__(self, site: HttpSite, actions: Mapping[str, Action]) -> None:
        self._site = site
        self._actions = actions

    async def __call__(self, request: Request) -> Response:
        """Answer one request."""
        action = self._actions.get(request.method)
        if action is None:
            allowed = ", ".join(sorted(self._actions))
            raise HttpProblem(405, "method_not_allowed", f"This action takes {allowed}.", headers={"allow": allowed})
        route = action.route
        if route is None:
            raise AssertionError("an action that is served has a route")
        identity = await self._site.identify(request)
        if route.method == "GET":
            raw: JsonValue = read_query(action, request)
        else:
            raw = await read_object(request, route.max_body_bytes)
        proof = self._site.proof.holds(request, identity)
        settled = await self._site.work(
            lambda: self._site.dispatcher.dispatch(
                action.name,
                raw,
                site="http",
                identity=identity,
                proof=proof,
                headers=dict(request.headers),
            ),
            f"http call of {action.name}",
        )
        return self._answer(request, identity, settled, proof)

    def _answer(self, request: Request, identity: Identity | None, settled: Settled, proof: bool) -> Response:
        problem = settled.failure
        if problem is None:
            return CompactJson({"result": result_of(settled), "callHash": settled.hash})
        code, status, text = problem.code, problem.status_code, self._site.say_failure(settled)
        is_person = identity is None or identity.kind == "user"
        if code in UNPROVEN and not proof and is_person and self._site.proof.is_claimed(request):
            code, status = "ui_capability_required", 403
            text = "The page has to prove itself: GET /ui-capability, then try again."
        return answer_error(
            status,
            code,
            text,
            details=problem.details,
            effect=settled.effect if settled.prepared is not None else None,
            call_hash=settled.hash,
        )


def result_of(settled: Settled) -> JsonValue:
    """Return a result as JSON, with the images for models that it came with: over HTTP they stay in it.

    Pictures and figures become entries of the same field. Of another result that is no JSON (a frame) it is what a
    model would get.
    """
    value = replace_drawn(settled.value)
    is_drawn = value is not settled.value
    try:
        result = to_jsonable_python(value, inf_nan_mode="null", serialize_unknown=False)
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        result = settled.output
    images = settled.image_field
    if is_drawn:
        given = images or []
        known = {entry.get("data") for entry in given if isinstance(entry, dict)}
        drawn = [entry for item in settled.images if (entry := entry_of(item)).get("data") not in known]
        images = [*given, *(entry for entry in drawn if "data" in entry)]
    if images is None:
        return result
    return {**result, FIELD: images} if isinstance(result, dict) else {"result": result, FIELD: images}


def read_query(action: Action, request: Request) -> dict[str, JsonValue]:
    """Return the arguments of a GET: a repeated key is a list, one value for a list is wrapped."""
    arguments: dict[str, JsonValue] = {}
    for key in request.query_params:
        values = request.query_params.getlist(key)
        allowed = action.allowed_types.get(key, frozenset())
        if len(values) > 1:
            arguments[key] = list(values)
        elif "array" in allowed and "string" not in allowed and not values[0].lstrip().startswith("["):
            arguments[key] = [values[0]]
        else:
            arguments[key] = values[0]
    return arguments


async def read_body(request: Request, limit: int) -> bytes:
    """Return a body, counted while it is read.

    Raises:
        HttpProblem: It is too large (413), or the caller went away.
    """
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    pieces: list[bytes] = []
    size = 0
    try:
        async for piece in request.stream():
            size += len(piece)
            if size > limit:
                raise _too_large(limit)
            pieces.append(piece)
    except ClientDisconnect:
        raise HttpProblem(400, "invalid_body", "The request broke off.") from None
    return b"".join(pieces)


async def read_json(request: Request, limit: int) -> JsonValue:
    """Return a JSON body.

    Raises:
        HttpProblem: It is too large (413), not declared as JSON (415), or no JSON (400).
    """
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        # Browsers send other kinds across origins without asking first.
        raise HttpProblem(415, "invalid_body", "Send JSON, with content-type application/json.")
    return parse_json(await read_body(request, limit))


def parse_json(body: bytes) -> JsonValue:
    """Return the value of a JSON text.

    Raises:
        HttpProblem: It is none; 400.
    """
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise HttpProblem(400, "invalid_body", "The body is no JSON.") from None


async def read_object(request: Request, limit: int) -> dict[str, Any]:
    """Return a JSON object.

    Raises:
        HttpProblem: As `read_json`; or it is another value (400).
    """
    value = await read_json(request, limit)
    if not isinstance(value, dict):
        raise HttpProblem(400, "invalid_body", "The body has to be a JSON object.")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _too_large(limit: int) -> HttpProblem:
    return HttpProblem(
        413, "body_too_large", f"The body is larger than {limit:,} bytes.", headers={"connection": "close"}
    )


def routes_of(actions: tuple[Action, ...]) -> dict[str, dict[str, Action]]:
    """Return the actions that the site serves, by path and verb, in order.

    Raises:
        ConfigError: Two share a path and a verb.
    """
    from ..errors import ConfigError

    found: dict[str, dict[str, Action]] = {}
    for action in actions:
        if action.route is None:
            continue
        verbs = found.setdefault(action.route.path, {})
        if action.route.method in verbs:
            other = verbs[action.route.method].name
            raise ConfigError(
                f"the actions {other!r} and {action.name!r} are both served at {action.route.method} "
                f"{action.route.path}; give one of them another path"
            )
        verbs[action.route.method] = action
    return found
