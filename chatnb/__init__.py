"""A live chat with an agent, inside the notebook.

Every public name is importable from here and loaded when it is first used, so that `import chatnb` costs next to
nothing and loads none of anywidget, SQLAlchemy, anthropic or IPython. The table below says where each name lives.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from chatnb.actions import Action as Action
    from chatnb.actions import ActionContext as ActionContext
    from chatnb.actions import Change as Change
    from chatnb.actions import Identity as Identity
    from chatnb.actions import PreparedCall as PreparedCall
    from chatnb.actions import Variable as Variable
    from chatnb.actions import action as action
    from chatnb.actions import action_errors as action_errors
    from chatnb.agent import Agent as Agent
    from chatnb.chat import Chat as Chat
    from chatnb.compare import compare as compare
    from chatnb.errors import ConnectionNeeded as ConnectionNeeded
    from chatnb.errors import StopTurn as StopTurn
    from chatnb.history import Branch as Branch
    from chatnb.kernel.actions import notebook_actions as notebook_actions
    from chatnb.messages import UIMessage as UIMessage
    from chatnb.models import ActionSpec as ActionSpec
    from chatnb.models import AnthropicModel as AnthropicModel
    from chatnb.models import Model as Model
    from chatnb.models import ModelRequest as ModelRequest
    from chatnb.models import OfflineModel as OfflineModel
    from chatnb.models import PydanticAIModel as PydanticAIModel
    from chatnb.models import RecordedModel as RecordedModel
    from chatnb.models import Reply as Reply
    from chatnb.models import ScriptedModel as ScriptedModel
    from chatnb.models import StepEnd as StepEnd
    from chatnb.models import Usage as Usage
    from chatnb.policies import Objects as Objects
    from chatnb.policies import Variables as Variables
    from chatnb.recovery import Interruption as Interruption
    from chatnb.recovery import Recovery as Recovery
    from chatnb.recovery import RecoveryDecision as RecoveryDecision
    from chatnb.sites.mcp import mcp_actions as mcp_actions
    from chatnb.turns import ClientTool as ClientTool
    from chatnb.turns import Compaction as Compaction
    from chatnb.turns import Debounce as Debounce
    from chatnb.turns import Outcome as Outcome
    from chatnb.turns import Pending as Pending
    from chatnb.turns import Steering as Steering
    from chatnb.turns import Submission as Submission
    from chatnb.turns import Turn as Turn
    from chatnb.turns import TurnError as TurnError
    from chatnb.turns import Waiting as Waiting
    from chatnb.widget import ChatWidget as ChatWidget

__version__ = "0.1.0"

# Where each public name lives. The imports above say the same to type checkers; a test keeps the two equal.
_HOMES = {
    "chatnb.actions": (
        "Action",
        "ActionContext",
        "Change",
        "Identity",
        "PreparedCall",
        "Variable",
        "action",
        "action_errors",
    ),
    "chatnb.agent": ("Agent",),
    "chatnb.chat": ("Chat",),
    "chatnb.compare": ("compare",),
    "chatnb.errors": ("ConnectionNeeded", "StopTurn"),
    "chatnb.history": ("Branch",),
    "chatnb.kernel.actions": ("notebook_actions",),
    "chatnb.messages": ("UIMessage",),
    "chatnb.models": (
        "ActionSpec",
        "AnthropicModel",
        "Model",
        "ModelRequest",
        "OfflineModel",
        "PydanticAIModel",
        "RecordedModel",
        "Reply",
        "ScriptedModel",
        "StepEnd",
        "Usage",
    ),
    "chatnb.policies": ("Objects", "Variables"),
    "chatnb.recovery": ("Interruption", "Recovery", "RecoveryDecision"),
    "chatnb.sites.mcp": ("mcp_actions",),
    "chatnb.turns": (
        "ClientTool",
        "Compaction",
        "Debounce",
        "Outcome",
        "Pending",
        "Steering",
        "Submission",
        "Turn",
        "TurnError",
        "Waiting",
    ),
    "chatnb.widget": ("ChatWidget",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
# Modules with public names of their own, so that `chatnb.errors.InputError` needs no second import.
_MODULES = frozenset({"errors", "kernel", "messages", "models", "testing", "widget"})

__all__ = [
    "__version__",
    *sorted(_HOME_OF),
]


def __getattr__(name: str) -> object:
    """Loads a public name from its home at first use (PEP 562)."""
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_meant(name)}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def _meant(name: str) -> str:
    """The public name that was probably meant, as the end of an error."""
    import difflib

    elsewhere = {"tool": "action", "Tool": "Action", "ChatInterface": "ChatWidget"}
    near = [elsewhere[name]] if name in elsewhere else difflib.get_close_matches(name, _HOME_OF, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def __dir__() -> list[str]:
    """The names that exist, loaded or not."""
    return sorted({*globals(), *__all__, *_MODULES})


def load_ipython_extension(ipython: InteractiveShell) -> None:
    """Registers the magics: what `%load_ext chatnb` calls (spec/notebook.md, section 7)."""
    from chatnb.kernel import magics

    magics.load_ipython_extension(ipython)


def unload_ipython_extension(ipython: InteractiveShell) -> None:
    """Removes the magics and closes nothing: what `%unload_ext chatnb` calls."""
    from chatnb.kernel import magics

    magics.unload_ipython_extension(ipython)
