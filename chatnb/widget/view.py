"""`ChatWidget`: the panel as a Jupyter widget (spec/widget.md, section 1)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import traitlets

from .._ids import random_word
from .._json import JsonValue
from ..errors import ChatClosedError, ConfigError
from .assets import NOT_BUILT_ESM, read_bundle
from .delivery import DeliveryFinder, find_place, keep_route
from .displays import Displayed
from .outputs import TranscriptOutputs, is_in_marimo, publish_output, transcript_bundle
from .panel import Panel
from .redaction import describe, locate
from .settings import (
    LIVE,
    check_height,
    check_known,
    check_names,
    check_suggestions,
    check_text,
    check_theme,
    read_settings,
    signature,
)
from .traits import OptionTrait, StateTrait

if TYPE_CHECKING:
    from ..turns import Submission

logger = logging.getLogger("chatnb.widget")

T = TypeVar("T")

FREE_WITHIN = 0.5
"""Seconds that the end of a cell waits for the runtime."""

STATE_TRAITS = (
    "messages",
    "status",
    "is_streaming",
    "is_server_streaming",
    "is_tool_continuation",
    "is_recovering",
    "error",
    "pending",
    "usage",
    "queue",
)
_STATE_TRAITS = frozenset(STATE_TRAITS)


class ChatWidget(Displayed):
    """A panel of a chat.

    Args:
        chat: A `Chat`, or an `Agent`, of which a new chat is made.
        **options: The options of spec/widget.md, section 1: `height`, `theme`, `placeholder`, `title`, `locale`,
            `suggestions`, `transcript`, `client_tools`, `on_tool_call`, `on_data`, `auto_continue_after_tool_result`,
            `resume`, `cancel_on_client_abort`, `body`, `prepare_send_messages_request`, `get_initial_messages`,
            `sync_messages`, `max_attachment_bytes`, `allow_attachments`.

    Attributes:
        messages: The messages that are shown; change them by `set_messages`.
        status: "ready", "submitted", "streaming" or "error".
        is_streaming: Anything streams.
        is_server_streaming: A turn of somebody else streams, or a client tool works.
        is_tool_continuation: The turn goes on after a decision.
        is_recovering: The turn goes on after an interruption.
        error: Why the last turn failed.
        pending: What waits for a person.
        usage: Tokens and cost.
        queue: The inputs that wait.

    Raises:
        TypeError: Neither a chat nor an agent, or an unknown option.
        ConfigError: An option can't be so.
    """

    __signature__ = signature()

    _esm = read_bundle("widget.js") or NOT_BUILT_ESM
    _css = read_bundle("widget.css") or ""

    messages = StateTrait()
    status = StateTrait()
    is_streaming = StateTrait()
    is_server_streaming = StateTrait()
    is_tool_continuation = StateTrait()
    is_recovering = StateTrait()
    error = StateTrait()
    pending = StateTrait()
    usage = StateTrait()
    queue = StateTrait()

    height = OptionTrait("560px", check_height)
    theme = OptionTrait("auto", check_theme)
    placeholder = OptionTrait(None, check_text)
    title = OptionTrait(None, check_text)
    suggestions = OptionTrait((), check_suggestions)
    _snapshot = traitlets.Dict().tag(sync=True)

    # Set before any of traitlets' own set-up, which already calls some of the methods below.
    _live: dict[str, Any] | None = None

    def __init__(self, chat: Any, **options: Any) -> None:
        check_known(options)
        opened = _chat_of(chat)
        settings = read_settings(options)
        check_names(settings.client_tools, opened._engine.definition.catalog)
        live = {name: _checked(name, value) for name, value in options.items() if name in LIVE}
        self._settings = settings
        self._outputs = TranscriptOutputs(
            self._render_transcript, publish_output, self._is_settled, self._on_runtime, self._is_seen
        )
        place = find_place(in_memory=opened._engine.store.in_memory)
        self._delivery = DeliveryFinder(place.delivery)
        self._live = {name: getattr(self, name) for name in LIVE} | live
        # The panel first: with the comm the host asks for the state, which has the snapshot of what there is.
        self._panel = Panel(
            opened,
            f"widget-{random_word(12)}",
            settings,
            self._live_options,
            self._send_frame,
            self._tell,
            self._on_settled,
            self._is_observed,
            place,
        )
        self._panel.unseen = self._unseen
        try:
            super().__init__(**live)
        except BaseException:
            self._panel.close()
            raise
        self._live = None
        keep_route(self.comm)
        self._in_marimo = is_in_marimo()
        super().observe(self._on_option, list(LIVE))
        if settings.get_initial_messages is not None and self._panel.seam.is_untouched():
            self._panel.fill(settings.get_initial_messages)

    # --- methods ------------------------------------------------------------------------------------------------

    @property
    def chat(self) -> Any:
        """The chat that is shown."""
        return self._open().seam.chat

    def send_message(
        self,
        message: Any,
        *,
        files: Sequence[Any] = (),
        metadata: JsonValue = None,
        body: Mapping[str, JsonValue] | None = None,
    ) -> Submission:
        """Send a text, a message or parts, as `chat.send` does, with this widget as origin.

        Raises:
            ChatClosedError: The widget or the chat is closed.
            InputError: There is nothing to send.
        """
        panel = self._open()
        options = panel.body.options("submit-message", None, body)
        tools = self._settings.client_tools
        return panel.seam.do("send", message, files=files, metadata=metadata, client_tools=tools, **options)

    def regenerate(self, message_id: str | None = None, *, body: Mapping[str, JsonValue] | None = None) -> Submission:
        """Answer again, as `chat.regenerate` does."""
        panel = self._open()
        options = panel.body.options("regenerate-message", message_id, body)
        return panel.seam.do("regenerate", message_id, client_tools=self._settings.client_tools, **options)

    def stop(self) -> None:
        """Stop the running turn, and what works on client-side calls."""
        panel = self._open()
        panel.seam.call(panel.deeds.stop)

    def clear_history(self) -> Submission:
        """Empty the history; every view is empty at once."""
        return self._open().seam.do("clear")

    def add_tool_output(
        self, tool_call_id: str, output: JsonValue = None, *, state: str | None = None, error_text: str | None = None
    ) -> Submission:
        """Settle a client-side call.

        Args:
            tool_call_id: The call.
            output: What it gave.
            state: `"output-error"` with `error_text` for a call that failed.
            error_text: Why it failed.

        Raises:
            ConfigError: Another state, or an error without text.
            PendingError: No such call waits.
        """
        panel = self._open()
        auto = self._settings.auto_continue
        if state == "output-error" or (state is None and error_text is not None):
            if not error_text:
                raise ConfigError('state="output-error" needs error_text')
            return panel.seam.do("add_tool_error", tool_call_id, error_text, continue_=auto)
        if state not in (None, "output-available"):
            raise ConfigError('state must be "output-available" or "output-error"')
        return panel.seam.do("add_tool_output", tool_call_id, output, continue_=auto)

    def add_tool_approval_response(self, id: str, approved: bool, reason: str | None = None) -> Submission:
        """Decide on a prepared call.

        Raises:
            PendingError: No such decision waits.
        """
        auto = self._settings.auto_continue
        return self._open().seam.do("add_tool_approval_response", id, approved, reason, continue_=auto)

    def set_messages(self, messages: Any) -> None:
        """Show other messages: a list, or a function of the current tuple.

        With `sync_messages=True` they become the chat's history; else this widget alone shows them, until the history
        next changes.
        """
        panel = self._open()
        if self._settings.sync_messages:
            panel.seam.chat.set_messages(messages(tuple(self.messages)) if callable(messages) else messages)
        else:
            panel.set_messages(messages)

    def resume_stream(self) -> None:
        """Show a running reply that `resume=False` held back."""
        panel = self._open()
        panel.seam.call(panel.resume)

    def close(self) -> None:
        """End the views and the comm; the chat stays. Idempotent."""
        if self._outputs is None:  # never came to be: its options were refused
            return
        if not self._is_closed:
            self._is_closed = True
            self._outputs.close()
            if self._panel is not None:
                self._panel.close()
        if self.comm is not None:
            self._close_comm()

    def _open(self) -> Panel:
        if self._is_closed or self._panel is None:
            raise ChatClosedError("this widget is closed; make another with chat.view()")
        return self._panel

    # --- traits -------------------------------------------------------------------------------------------------

    def _read_trait(self, name: str) -> Any:
        return None if self._panel is None else self._panel.traits()[name]

    def _tell(self, name: str, old: Any, new: Any) -> None:
        """Tell the observers of a state trait, each guarded: one that raises stops nothing."""
        change = traitlets.Bunch(name=name, old=old, new=new, owner=self, type="change")
        for observers in (self._trait_notifiers.get(name, {}), self._trait_notifiers.get(traitlets.All, {})):
            for kind in ("change", traitlets.All):
                for observer in tuple(observers.get(kind, ())):
                    if isinstance(observer, traitlets.EventHandler) and observer.name is not None:
                        observer = getattr(self, observer.name)  # a method with `@observe`
                    try:
                        observer(change)
                    except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001 - a person's function
                        is_link = isinstance(getattr(observer, "__self__", None), traitlets.link)
                        if is_link and isinstance(error, traitlets.TraitError) and self._read_trait(name) != new:
                            continue  # it has set its target, and found a newer value here, which it gets next
                        redact = self._panel.redact if self._panel is not None else None
                        logger.error("an observer of %r failed: %s", name, describe(error, redact))

    def observe(self, handler: Any, names: Any = traitlets.All, type: Any = "change") -> None:
        """Observe traits; observers of the chat's state run on the main thread."""
        if self._panel is not None and not self._is_observed():
            self._wake()
            self._panel.seam.call(self._panel.notifier.start)
        super().observe(handler, names, type)

    def _is_observed(self) -> bool:
        notifiers = self._trait_notifiers
        return traitlets.All in notifiers or any(notifiers[name] for name in _STATE_TRAITS & notifiers.keys())

    def _live_options(self) -> dict[str, Any]:
        return self._live if self._live is not None else {name: getattr(self, name) for name in LIVE}

    def _on_option(self, change: Any) -> None:
        if self._panel is not None:
            self._panel.refresh()

    # --- the comm -----------------------------------------------------------------------------------------------

    def _send_frame(self, frame: Mapping[str, JsonValue], buffers: Sequence[bytes]) -> None:
        if not self._is_closed and not self._is_resting:
            self.send(dict(frame), list(buffers) or None)

    def _handle_msg(self, msg: Any) -> None:
        """Take a message of the host. What is no widget message at all is logged: it never raises in the kernel."""
        try:
            data = msg["content"]["data"]
            if data["method"] == "custom" and self._panel is not None and not self._is_closed:
                is_hello = isinstance(data.get("content"), Mapping) and data["content"].get("type") == "hello"
                self._panel.note_delivery(self._delivery.note(msg.get("header"), is_hello=is_hello))
            super()._handle_msg(msg)
        except (AttributeError, KeyError, LookupError, TypeError, ValueError) as error:
            logger.warning("a message of a page is not valid: %s", locate(error))

    def _handle_custom_msg(self, content: Any, buffers: Any) -> None:
        panel = self._panel
        if panel is not None and not self._is_closed:
            panel.desk.receive(content, buffers or ())

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> dict[str, Any]:
        """Return the synced state; `_snapshot` is made when it is asked for."""
        state: dict[str, Any] = super().get_state(key, drop_defaults)
        if drop_defaults and key is None:
            # No page knows the defaults of what is our own: a page that is made of the state alone needs all of it.
            own = (*LIVE, "_snapshot", *(name for name in ("_esm", "_css", "_anywidget_id") if name in self.keys))
            state |= super().get_state(own)
        if "_snapshot" in state and self._panel is not None and not self._is_closed:
            state["_snapshot"] = self._panel.snapshot()
        return state

    def set_state(self, sync_data: Any) -> None:
        """Take options that a `jslink` changed; nothing else that a page sends moves a trait."""
        wanted, refused = {}, []
        for name in set(LIVE) & set(sync_data if isinstance(sync_data, Mapping) else ()):
            try:
                wanted[name] = _checked(name, sync_data[name])
            except ConfigError:
                refused.append(name)
        super().set_state(wanted)
        if refused:
            logger.warning("a page sent options that can't be so: %s", ", ".join(sorted(refused)))
            self.send_state(refused)

    # --- output -------------------------------------------------------------------------------------------------

    def _is_built(self) -> bool:
        return ChatWidget._esm is not NOT_BUILT_ESM

    def __repr__(self) -> str:
        return "ChatWidget"

    def _render_transcript(self) -> dict[str, Any]:
        assert self._panel is not None
        return transcript_bundle(self._panel.seam.settled_messages(), self._panel.redact)

    def _is_seen(self) -> bool:
        return self._panel is not None and bool(self._panel.channel.views)

    def _is_settled(self) -> bool:
        return self._panel is not None and self._panel.is_settled

    def _on_runtime(self, function: Callable[[], T]) -> T | None:
        # A cell does not wait for its end because the store is locked.
        return self._open().seam.call_if_free(function, FREE_WITHIN)

    def _on_settled(self) -> None:
        if self._panel is not None and self._outputs is not None and not self._is_closed and not self._is_resting:
            self._outputs.settled(self._panel.seam.loop)
            if self._in_marimo:
                self.send_state("_snapshot")  # marimo never asks again, and its export shows what it was sent


def _checked(name: str, value: object) -> Any:
    option: Any = getattr(ChatWidget, name)
    return option.check(value)


def _chat_of(chat: Any) -> Any:
    """Return a chat; of an agent a new one.

    Raises:
        TypeError: Neither.
    """
    from ..agent import Agent

    if isinstance(chat, Agent):
        return chat.chat()
    if hasattr(chat, "_engine") and hasattr(chat, "_runtime"):
        return chat
    raise TypeError(f"ChatWidget shows a Chat or an Agent, not {type(chat).__name__}")


def show(chat: Any, **options: Any) -> None:
    """Show a chat in a widget of its own: what displaying a chat does."""
    ChatWidget(chat, **options)._ipython_display_()
