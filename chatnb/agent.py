"""`Agent`: the definition of an agent, and where its chats come from. This is where the rows are put together."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from . import _copies
from ._changes import Observer
from ._clock import SystemClock
from ._composition import Composition, FreeBooks
from ._hooks import AgentHooks
from ._ids import check_chat_id, new_chat_id, new_id
from ._options import check_options, named_options
from ._schemas import client_data_parser, parse_actions
from .actions import Action, Catalog, Change, Identity, Variable, find_identity
from .actions.direct import add_python_site
from .actions.environment import CallEnvironment
from .chat import Chat
from .errors import ChatnbError
from .models import Model, resolve_model
from .policies import Objects, Variables
from .recovery import Recovery
from .store import Store, open_store
from .turns import Compaction, Definition, HookName, Steering, Turn
from .turns.definition import Concurrency

__all__ = ["Agent", "Objects", "Variable", "Variables"]

F = TypeVar("F", bound=Callable[..., Any])
log = logging.getLogger("chatnb")
_opening = threading.Lock()


class Agent(AgentHooks):
    """An agent: model, instructions, actions, hooks and policies. It holds no conversation.

    Args:
        model: A `Model`, or a name: `"offline"`, or one that starts with `claude`. None: the Anthropic default model
            when `ANTHROPIC_API_KEY` is set, else `"offline"`.
        name: Names the agent in ids and lists.
        instructions: Text, or a function of the turn (sync or async) that returns text.
        actions: Functions or `Action` objects, in the order in which they are shown.
        chat_actions: A pydantic model, or a discriminated union of models: the app's own chat actions.
        store: None: the SQLite file `.chatnb/chats.db` in the working directory (`CHATNB_STORE` overrides); a URL; or
            a `Store`.
        concurrency: What a send does that overlaps: `"queue"`, `"latest"`, `"merge"`, `"drop"`, `"debounce"` or
            `Debounce(seconds)`.
        steering: Takes messages that arrive mid-turn into the turn.
        compaction: Replaces the older part of the model's view by a summary.
        recovery: How interrupted turns are taken up again.
        max_steps: Model calls of one turn at most.
        client_data: A type (pydantic model, TypedDict...) that client data is parsed by.
        identity: Who works here, an `Identity` or its id.
        plan_mode: Only calls that change nothing are run.
        approval_ttl: Seconds that an approval waits; None: as long as it must.
        objects: How many results are kept as Python objects.
        variables: What of the notebook's variables a model may see.
        runtime: `"thread"`, `"kernel"` or `"auto"`.

    Raises:
        ConfigError: An option can't work, or the model's name is unknown; the text says what is known.
        ActionDefinitionError: An action can't be defined so.

    Example:
        def sales(region: str) -> int:
            "Look up the sales of a region."
            return {"North": 1250, "South": 980}[region]

        agent = Agent("offline", instructions="You are a careful analyst.", actions=[sales])
        chat = agent.chat("q3-review")  # as the last line of a cell it shows the panel
        outcome = await chat.send("Show the sales in the North")
    """

    @named_options
    def __init__(
        self,
        model: Model | str | None = None,
        *,
        name: str = "agent",
        instructions: str | Callable[[Turn], str | Awaitable[str | None] | None] | None = None,
        actions: Iterable[Action | Callable[..., Any]] = (),
        chat_actions: Any = None,
        store: str | os.PathLike[str] | Store | None = None,
        concurrency: Concurrency = "queue",
        steering: Steering | None = None,
        compaction: Compaction | None = None,
        recovery: Recovery | None = Recovery(),  # noqa: B008 - frozen
        max_steps: int = 20,
        client_data: Any = None,
        identity: Identity | str | None = None,
        plan_mode: bool = False,
        approval_ttl: float | None = None,
        objects: Objects | None = Objects(),  # noqa: B008 - frozen
        variables: Variables | None = Variables(),  # noqa: B008 - frozen
        runtime: str = "auto",
    ) -> None:
        check_options(locals())
        self.model = resolve_model(model)
        if model is None:
            known = "set" if self.model.name != "offline" else "not set"
            log.info("agent %r answers with the model %r: ANTHROPIC_API_KEY is %s", name, self.model.name, known)
        self.name = name
        self.instructions = instructions
        self.catalog = Catalog.of(actions)
        self.client_data = client_data
        self.identity = identity
        self.runtime_kind = runtime
        self.objects_policy = objects
        self.variables_policy = variables
        self._store = store
        self._concurrency: Concurrency = concurrency
        self._steering = steering
        self._compaction = compaction
        self._recovery = recovery if recovery is not None else Recovery()
        self._max_steps = max_steps
        self._plan_mode = plan_mode
        self._approval_ttl = approval_ttl
        self._hooks: dict[HookName, Callable[..., Any]] = {}
        self._parse_action, self._action_types = parse_actions(chat_actions)
        self._observers: list[Observer] = []
        self._composition: Composition | None = None
        add_python_site(self)

    @property
    def actions(self) -> tuple[Action, ...]:
        """The agent's actions, in order."""
        return tuple(self.catalog.values())

    def chat(self, id: str | None = None, *, client_data: Any = None, take_over: bool = False) -> Chat:
        """Open a chat, or make it.

        In one process the same id is always the same object; calling it again binds the live conversation to this
        definition, and a running turn finishes on the old one.

        Args:
            id: 1 to 200 printable characters without `/`; None makes a new chat, `NAME-` and 6 random characters.
            client_data: The chat's client data, for inputs that bring none.
            take_over: Take the chat from a living owner.

        Raises:
            InputError: Not a valid id.
            ChatInUseError: Another living process owns it.
            StoreError: The store can't be used.

        Example:
            chat = agent.chat("q3-review")
            assert agent.chat("q3-review") is chat
        """
        if id is None:
            id = new_chat_id(self.name)
        check_chat_id(id)
        return self._open(id, client_data=client_data, take_over=take_over)

    def _open(
        self, id: str, *, client_data: Any = None, take_over: bool = False, identity: Identity | None = None
    ) -> Chat:
        """Open a chat; `identity` is whom a site has authenticated: the owner of a chat that it makes."""
        began = time.monotonic()
        store, composition = open_store(self._store), self.composition()

        def find_or_open() -> Chat:
            with _opening:
                chat = composition.find(store, id)
                if chat is None:
                    chat = composition.open(
                        self, store, id, composition.owner, take_over=take_over, identity=identity, began=began
                    )
                chat._bind(self, client_data)
                return chat

        # Ctrl-C between the lease and the chat would leave a lease of our own that nobody could give back.
        return composition.runtime.undisturbed(find_or_open)

    def load(self, source: str | os.PathLike[str], id: str | None = None) -> Chat:
        """Make a chat of a JSON export: its text, or the path of its file. Nothing runs; what waits goes on waiting.

        Raises:
            ExportFormatError: It is no export of chatnb, or one of a newer version.
            ChatExistsError: The id is taken.

        Example:
            copy = agent.load(chat.export("json"))
        """
        return _copies.load(self, self.composition(), source, id)

    def composition(self) -> Composition:
        """Return where this process's chats live; starts the runtime at first use.

        Raises:
            ConfigError: A runtime of the other kind runs already.
        """
        from .kernel.host import current_host
        from .runtime import get_runtime

        host = current_host()
        runtime = get_runtime(self.runtime_kind, host)  # type: ignore[arg-type]  # checked at the call of `Agent`
        self._composition = Composition.of(runtime, host, clock=SystemClock(), new_id=new_id)
        return self._composition

    @property
    def environment(self) -> CallEnvironment:
        """What calls get that belong to no chat: direct ones in Python."""
        from .kernel.host import current_host

        return CallEnvironment(
            identity=find_identity(self.identity, host=current_host().kind),
            books=FreeBooks(self._store),
            approval_ttl=self._approval_ttl,
            publish_change=self._publish_change,
        )

    def _publish_change(self, change: Change) -> None:
        """Tell of a change that belongs to no chat: this agent's observers and those of its open chats."""
        if self._composition is None:
            for observer in tuple(self._observers):
                observer.tell(change)
            return
        chats = [chat for chat in self._composition.chats.values() if chat.agent is self]
        for chat in chats:
            self._composition.runtime.post(chat._show_change, change)
        observers = [*self._observers, *(o for chat in chats for o in chat._observers)]
        for observer in observers:
            self._composition.runtime.notify(observer.tell, change)

    def definition(self, composition: Composition, chat: Chat) -> Definition:
        """Return this definition as a chat's engine uses it."""
        return Definition(
            name=self.name,
            model=self.model,
            instructions=self.instructions,
            catalog=self.catalog,
            hooks=self._hooks,
            concurrency=self._concurrency,
            steering=self._steering,
            compaction=self._compaction,
            recovery=self._recovery,
            max_steps=self._max_steps,
            parse_client_data=client_data_parser(self.client_data),
            parse_action=self._parse_action,
            action_types=self._action_types,
            **composition.seams(self, chat),
        )

    def on_change(self, function: Callable[[Change], Any]) -> Observer:
        """Call a function for every change that an action of this agent makes, in any chat, site or process.

        Works as a decorator. The function runs on the kernel's main thread, in order. What `on_change` returns, called
        without arguments, ends it.

        Example:
            @agent.on_change
            def refresh(change):
                print(change.action, change.resources)

            refresh()  # no more
        """
        observer = Observer(function, self._observers)
        try:
            self._watch_changes()
        except ChatnbError as failure:
            log.warning("changes of other processes are not heard of: %s", failure)
        return observer

    def _watch_changes(self) -> None:
        """Look for the changes of other processes: where chats are open, in a kernel, or where a store is named."""
        from .kernel.host import current_host

        if self._composition is None and self._store is None and current_host().kind != "kernel":
            return
        store = open_store(self._store)
        if not store.in_memory:
            self.composition().watch_changes(store, self)

    def __repr__(self) -> str:
        count = f"{len(self.catalog)} action{'' if len(self.catalog) == 1 else 's'}"
        return f"Agent({self.model.name!r}, name={self.name!r}, {count})"
