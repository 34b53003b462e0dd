"""Actions: one operation, defined once, and the one road that every call of it takes.

This folder owns definition and schema, preparation and hash, approval, authorization, the output contract, effects,
error sets, the rules of the calls ledger, batches, loop breakers, results, audit and the refresh event. It decides
whether a call runs (`dispatch.py`) and knows nothing of chats, stores or pages: those come in through `ports.py` and
`environment.py`. The law is spec/actions.md.
"""

from __future__ import annotations

from .catalog import Catalog
from .change import Change
from .context import ActionContext
from .definition import Action, action
from .errors_sets import ErrorSet, action_errors
from .identity import Identity, find_identity
from .prepare import PreparedCall
from .variables import Variable

__all__ = [
    "Action",
    "ActionContext",
    "Catalog",
    "Change",
    "ErrorSet",
    "Identity",
    "PreparedCall",
    "Variable",
    "action",
    "action_errors",
    "find_identity",
]
