"""The output contract (spec/actions.md, section 5)."""

from __future__ import annotations

import logging
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ..errors import ActionOutputContractError, ConnectionNeeded, Effect, StopTurn
from .definition import Action
from .paths import BUILT_IN_CODES, show_path

_log = logging.getLogger("chatnb")

Issues = tuple[tuple[str, str], ...]


def check_output(action: Action, value: object) -> object:
    """Return the validated result; without an output schema, or after a warning, the very object.

    Raises:
        ActionOutputContractError: The result does not fit a strict schema. The caller adds the effect.
        StopTurn: A validator raised it; the wording is chatnb's.
    """
    if action.output is None:
        return value
    signal: StopTurn | None = None
    issues: Issues = ()
    try:
        return action.output.validate_python(value)
    except ValidationError as error:
        issues = _read_issues(error, action.output)
    except StopTurn as raised:
        signal = _reword(raised)
    except Exception:  # noqa: BLE001 - a validator of the user's own failed in its own way
        issues = (("(root)", "validator_threw"),)
    # Raised out here: no cause and no context carries a value.
    if signal is not None:
        raise signal
    if action.options.output == "warn":
        _log.warning("action %s: its result does not fit its schema: %s", action.name, _said(issues))
        return value
    raise contract_error(action.name, issues, effect="none")


def contract_error(action: str, issues: Issues, *, effect: Effect) -> ActionOutputContractError:
    """Make the error of a result that does not fit."""
    text = f"The result of {action} does not fit its schema: {_said(issues)}."
    if effect == "committed":
        text += " The write took effect; do not retry."
    return ActionOutputContractError(text, action=action, issues=issues, effect=effect)


def _said(issues: Issues) -> str:
    return ", ".join(f"{path}: {code}" for path, code in issues)


def _read_issues(error: ValidationError, adapter: TypeAdapter[Any]) -> Issues:
    found: dict[tuple[str, str], None] = {}
    for item in error.errors(include_url=False, include_input=False, include_context=False):
        code = item["type"] if item["type"] in BUILT_IN_CODES else "invalid"
        found[show_path(item["loc"], adapter.core_schema), code] = None
    return tuple(found)


def _reword(raised: StopTurn) -> StopTurn:
    if isinstance(raised, ConnectionNeeded):
        made: StopTurn = ConnectionNeeded(raised.provider, "Found while the result was checked.", raised.source)
    else:
        made = StopTurn("The action ended the turn while its result was checked.", raised.code)
    return made
