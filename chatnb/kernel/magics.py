"""`%chat` and `%%chat` (spec/notebook.md, section 7). Loaded by `%load_ext chatnb`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import no_var_expand

from chatnb.agent import Agent
from chatnb.chat import Chat
from chatnb.errors import InputError, TurnFailedError
from chatnb.kernel.magics_reply import ReplyOutput
from chatnb.kernel.variables_watch import watch_of
from chatnb.turns import Submission

_NAME = "chat"
_OPTION = re.compile(r"""\s*--(?P<name>[\w-]+)(?:(?:\s*=\s*|\s+)(?P<value>"[^"]*"|'[^']*'|(?!--)\S+))?""")
_FLAG = re.compile(r"\s*--no-wait(?=\s|$)")
_USAGE = "%chat [--agent NAME] [--chat ID] [--no-wait] [TEXT]"


@dataclass(frozen=True, slots=True)
class Line:
    """A magic's line, read.

    Attributes:
        agent: A variable that holds an agent, or an agent's name.
        chat: A chat's id.
        waits: The cell waits for the reply.
        text: What stands behind the options, verbatim.
    """

    agent: str | None = None
    chat: str | None = None
    waits: bool = True
    text: str = ""


def read_line(line: str) -> Line:
    """Read the options at the begin of a line.

    Raises:
        UsageError: An unknown option, or one without its value.
    """
    given: dict[str, str] = {}
    waits = True
    while True:
        flag = _FLAG.match(line)
        if flag is not None:
            waits, line = False, line[flag.end() :]
            continue
        option = _OPTION.match(line)
        if option is None:
            break
        name, value = option["name"], option["value"]
        if name not in ("agent", "chat"):
            raise UsageError(f"%chat knows no option --{name}. Usage: {_USAGE}")
        if value is None:
            raise UsageError(f"--{name} needs a value. Usage: {_USAGE}")
        given[name] = value[1:-1] if value[0] in "\"'" else value
        line = line[option.end() :]
    return Line(given.get("agent"), given.get("chat"), waits, line.strip())


class ChatMagics:
    """The magics of one shell, and the agent and chat that stand in when none is named."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._default: tuple[Agent, str] | None = None
        self._last: dict[int, str] = {}
        self._own: Agent | None = None

    def chat(self, line: str, cell: str | None = None) -> Submission | None:
        """Show a chat, or send a text to it.

        Raises:
            UsageError: The line can't be read, the agent is not clear, or there is nothing to send.
            TurnFailedError: The turn that the cell waited for has failed.
        """
        read = read_line(line)
        if cell is not None and read.text:
            raise UsageError("The text of %%chat stands below its first line.")
        text = read.text if cell is None else cell
        if cell is not None and not cell.strip():
            raise UsageError("There is nothing to send: the cell is blank.")
        agent, chat = self._find(read)
        if not text:
            from IPython.display import display

            self._default = (agent, chat.id)
            display(chat)  # type: ignore[no-untyped-call]
            return None
        return self._send(chat, text, waits=read.waits)

    def _send(self, chat: Chat, text: str, *, waits: bool) -> Submission:
        output = ReplyOutput()
        submission = chat.send(text)
        if not waits:
            output.follow(submission)
            return submission
        outcome = output.wait(submission)
        if outcome.status == "error":
            message = outcome.error.message if outcome.error is not None else "The turn failed."
            raise TurnFailedError(message)
        return submission

    # --- which agent, which chat ----------------------------------------------------------------------------------

    def _find(self, read: Line) -> tuple[Agent, Chat]:
        agent, is_default = self._find_agent(read.agent)
        chat_id = read.chat
        if chat_id is None:
            default_id = self._default[1] if is_default and self._default is not None else None
            chat_id = default_id or self._last_chat(agent)
        try:
            chat = agent.chat(chat_id)
        except InputError as error:
            raise UsageError(str(error)) from None
        self._last[id(agent)] = chat.id
        return agent, chat

    def _find_agent(self, name: str | None) -> tuple[Agent, bool]:
        """The agent, and whether it is the default."""
        agents = self._agents()
        if name is not None:
            return self._named(name, agents), False
        if self._default is not None:
            return self._renewed(self._default[0], agents), True
        distinct = {id(agent): agent for agent in agents.values()}
        if len(distinct) == 1:
            return next(iter(distinct.values())), False
        if distinct:
            _refuse("There are several agents", agents)
        if self._own is None:
            self._own = Agent()
        return self._own, False

    def _named(self, name: str, agents: Mapping[str, Agent]) -> Agent:
        held = agents.get(name)
        if held is not None:
            return held
        known = {id(agent): agent for agent in agents.values() if agent.name == name}
        for agent in (self._own, self._default[0] if self._default is not None else None):
            if agent is not None and agent.name == name and not known:
                known[id(agent)] = agent
        if len(known) == 1:
            return next(iter(known.values()))
        if known:
            _refuse(f"Several agents are named {name!r}", {n: a for n, a in agents.items() if a.name == name})
        return _refuse(f"There is no agent {name!r}", agents)

    def _renewed(self, agent: Agent, agents: Mapping[str, Agent]) -> Agent:
        """The agent, or the one that its cell, run again, has put in its place."""
        if any(known is agent for known in agents.values()):
            return agent
        same = {id(known): known for known in agents.values() if known.name == agent.name}
        return next(iter(same.values())) if len(same) == 1 else agent

    def _agents(self) -> dict[str, Agent]:
        namespace: dict[str, Any] = dict(self._shell.user_ns)
        return {n: v for n, v in namespace.items() if isinstance(v, Agent) and not n.startswith("_")}

    def _last_chat(self, agent: Agent) -> str | None:
        """The id of the agent's last chat in this kernel, also one that a cell has opened."""
        live = [
            chat.id
            for chat in agent.composition().chats.values()
            if chat.agent is agent and not chat.is_closed and "/" not in chat.id
        ]
        remembered = self._last.get(id(agent))
        return remembered if remembered in live else live[-1] if live else None


def _refuse(reason: str, agents: Mapping[str, Agent]) -> NoReturn:
    listed = ", ".join(f"{variable} (name {agent.name!r})" for variable, agent in agents.items()) or "none"
    raise UsageError(f"{reason}. Agents: {listed}. Choose with --agent NAME.")


def load_ipython_extension(ipython: InteractiveShell) -> None:
    """Register the magics; harmless if they are there."""
    if _NAME in ipython.magics_manager.magics["line"]:
        return
    magics = ChatMagics(ipython)

    @no_var_expand
    def chat(line: str, cell: str | None = None) -> Submission | None:
        """Show a chat: `%chat [--agent NAME] [--chat ID]`. Send to it: `%chat ... TEXT`, or a cell below `%%chat ...`.

        `--no-wait` goes on with the notebook while the reply comes.
        """
        return magics.chat(line, cell)

    ipython.register_magic_function(chat, magic_kind="line_cell", magic_name=_NAME)  # type: ignore[call-arg,arg-type]
    watch_of(lambda: ipython.user_ns)


def unload_ipython_extension(ipython: InteractiveShell) -> None:
    """Remove the magics and close nothing."""
    for kind in ("line", "cell"):
        ipython.magics_manager.magics[kind].pop(_NAME, None)
