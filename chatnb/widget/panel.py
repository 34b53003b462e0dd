"""One panel, without a host: chat, channel, commands and traits put together. `view.py` adds comm and output."""

from __future__ import annotations

import concurrent.futures
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._json import JsonValue
from .._pending import PendingCalls
from ..errors import InputError
from ..messages import (
    UIMessage,
    is_complete_with_approval_responses,
    is_complete_with_tool_calls,
    validate_messages,
)
from ..messages.parts import DataPart
from ..turns.records import ChatState, Update
from .assets import AssetShelf
from .cells import ANSWER_WITHIN
from .channel import Channel, Send
from .commands import CommandDesk
from .deeds import WidgetDeeds
from .delivery import Place
from .first_messages import make_first_messages, wire_of
from .inputs import BodyMaker
from .options import OptionsForm
from .pacer import Handle
from .picture import Delivery, WidgetFacts, is_server_streaming, is_streaming, shown_messages, usage_of
from .protocol import VERSION, HelloCommand
from .redaction import Credentials
from .seam import ChatSeam
from .settings import Settings
from .snapshot import saved_snapshot
from .traits import Messages, TraitNotifier
from .view_form import Form, ViewForm

logger = logging.getLogger("chatnb.widget")

RETURN_WITHIN = 10.0
"""Seconds after the last view's end in which another may come, before its turn is stopped."""


class Panel:
    """A chat with the views of one widget.

    Args:
        chat: The chat.
        origin: The widget's id.
        settings: Its fixed options.
        live: Returns the options that may change, by name.
        send: Puts a frame on the comm.
        tell: Tells the observers of a trait.
        settled: Called when a turn or chat action has ended.
        is_observed: Whether a state trait has an observer.
        place: What is known of the host.
    """

    def __init__(
        self,
        chat: Any,
        origin: str,
        settings: Settings,
        live: Callable[[], Mapping[str, Any]],
        send: Send,
        tell: Callable[[str, Any, Any], None],
        settled: Callable[[], None],
        is_observed: Callable[[], bool] = lambda: True,
        place: Place = Place(),  # noqa: B008 - it does not change
    ) -> None:
        self._is_observed = is_observed
        self._settings = settings
        self._live = live
        self._send = send
        self._tell = tell
        self._settled = settled
        self._origin = origin
        self._held = False
        self._local: tuple[UIMessage, ...] | None = None
        self._local_over: Sequence[UIMessage] = ()
        self._place = place
        self._delivery: Delivery = place.delivery
        self._is_open = False
        self._abort: Handle | None = None
        self._is_resting = False
        self.unseen: Callable[[], None] = lambda: None
        self._saved: tuple[Sequence[UIMessage], JsonValue, Form] | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self.seam = ChatSeam(chat, origin)
        self.seam.call(self._attach)

    # --- life ---------------------------------------------------------------------------------------------------

    def _attach(self) -> None:
        seam = self.seam
        credentials = Credentials(lambda: seam.model)
        self.redact = credentials.redact
        shelf = AssetShelf()
        self._form = ViewForm(shelf, credentials)
        self._saved_form = ViewForm(None, credentials)
        self._described = OptionsForm(self._settings, self._form)
        self._latest = seam.state()
        self.channel = Channel(
            send=self._send,
            timers=seam.loop,
            read_state=seam.state,
            read_facts=self._facts,
            form=self._form,
            shelf=shelf,
            package=_package_version(),
        )
        self.body = BodyMaker(self._settings.body, self._settings.prepare, seam.ask, self.messages)
        self.deeds = WidgetDeeds(
            seam,
            self.channel,
            self._settings,
            self._form,
            self.body,
            take_over=self._take_over,
            greeted=self._greeted,
            left=self._view_left,
        )
        self.desk = CommandDesk(self.deeds)
        self.notifier = TraitNotifier(seam.loop, seam.notify, self.traits, self._tell, self._is_observed)
        if self._place.note is not None:
            self.deeds.notices.show({"id": "host", "text": self._place.note})
        self.channel.start()
        self.notifier.start()
        self._unsubscribe = seam.subscribe(self._on_update)
        self._is_open = True
        seam.add_inserter(self._insert_cell)
        self.deeds.tools.look(self._latest)

    def close(self) -> None:
        """End the views; the chat goes on. Idempotent, from any thread."""
        if self._is_open:
            self._is_open = False
            self.seam.call(self._close)

    def _close(self) -> None:
        self._detach()
        if self.channel.views:
            self.channel.views.clear()
            self._view_left()

    def set_former(self, is_former: bool) -> None:
        """Say whether another widget stands where this one was shown: what both have to do is then that one's."""
        self.deeds.tools.is_former = is_former

    def rest(self, *, listens: bool) -> None:
        """Nobody can see it any more: take no part, until `wake`.

        Args:
            listens: Observers go on hearing of the chat.
        """
        if self._is_open:
            self._is_open = listens
            self.seam.call(self._rest, listens)

    def _rest(self, listens: bool) -> None:
        if not listens:
            self._detach()
            return
        self._is_resting = True
        self.seam.remove_inserter(self._insert_cell)
        self.deeds.tools.close()
        self.channel.close()

    def wake(self) -> None:
        """Take part again, with views that are new."""
        if not self._is_open or self._is_resting:
            self.seam.call(self._begin_again)

    def _begin_again(self) -> None:
        if self._is_open:
            self._detach()
        self._is_resting = False
        self._attach()

    def _detach(self) -> None:
        self._unsubscribe()
        self.seam.remove_inserter(self._insert_cell)
        self.deeds.tools.close()
        self.notifier.close()
        self.channel.close()

    def _insert_cell(self, source: str, kind: str = "code", position: str = "below") -> bool:
        """Let a page insert a cell, and wait for it; from any thread but the runtime's."""
        done: concurrent.futures.Future[bool] = concurrent.futures.Future()

        async def work() -> None:
            done.set_result(await self.deeds.cells.insert(source, kind, position))

        self.seam.spawn(work(), "inserting a cell")
        return done.result(2 * ANSWER_WITHIN)

    def _take_over(self) -> None:
        """Open the chat again, which somebody else has; in a worker thread."""
        chat = self.seam.chat.agent.chat(self.seam.chat.id, take_over=True)
        self.seam.call(self._rebind, chat)

    def _rebind(self, chat: Any) -> None:
        if chat is not self.seam.chat:
            self._unsubscribe()
            self.seam.bind(chat)
            self._unsubscribe = self.seam.subscribe(self._on_update)
        self._on_update(Update(kind="history"))

    # --- changes ------------------------------------------------------------------------------------------------

    def _on_update(self, update: Update) -> None:
        if update.kind != "chunk":
            self._latest = self.seam.state()
            if self._local is not None and not _same(self._local_over, self.seam.settled_messages()):
                self._local = None
            if self._held and (update.kind == "settled" or self.is_settled):
                self._held = False
        if self._is_resting:
            self.notifier.changed()
            return
        self.channel.on_update(update)
        self.deeds.on_update(update, self._latest)
        self.notifier.changed()
        on_data, chunk = self._settings.on_data, update.chunk
        if self.deeds.tools.is_former and not self.channel.views:
            on_data = None
        if on_data is not None and chunk is not None and str(chunk.get("type")).startswith("data-"):
            self.seam.notify(self._tell_data, on_data, DataPart(chunk))
        if update.kind in ("settled", "history") and self.is_settled:
            self._settled()

    def _tell_data(self, on_data: Callable[[DataPart], Any], part: DataPart) -> None:
        """Give a data part to a person's function; what an async one does goes on where their functions run."""
        work = on_data(part)
        if inspect.isawaitable(work):
            self.seam.spawn(self.seam.ask(lambda: work), "an async on_data")

    def refresh(self) -> None:
        """The options have changed; from any thread."""
        if self._is_open:
            self.seam.post(self.channel.refresh)

    def set_messages(self, messages: Sequence[Any] | Callable[[tuple[UIMessage, ...]], Sequence[Any]]) -> None:
        """Show other messages, in this widget alone, until the history changes.

        Raises:
            InputError: They are no list.
            MessageValidationError: They are no valid messages.
        """
        wanted = messages(tuple(self.messages())) if callable(messages) else messages
        if not isinstance(wanted, list | tuple):
            raise InputError(f"set_messages() takes a list of messages, not {type(wanted).__name__}")
        found = tuple(validate_messages([wire_of(message) for message in wanted])) if wanted else ()
        self.seam.call(self._show, found)

    def _show(self, messages: tuple[UIMessage, ...]) -> None:
        self._local, self._local_over = messages, self.seam.settled_messages()
        self.channel.refresh()
        self.notifier.changed()

    def resume(self) -> None:
        """Show a reply that was held back."""
        if self._held:
            self._held = False
            self.channel.refresh()
            self.notifier.changed()

    def note_delivery(self, delivery: Delivery) -> None:
        """It was found out how commands are delivered; from any thread."""
        if delivery != self._delivery and self._is_open:
            self._delivery = delivery
            self.seam.post(self.channel.refresh)

    def _greeted(self, command: HelloCommand) -> None:
        if VERSION not in command.versions:
            return  # it will be no view
        if self._abort is not None:
            self._abort.cancel()
            self._abort = None
        state = self.seam.state()
        if command.resume or self._settings.resume:
            self.resume()
        elif not self.channel.views and state.status in ("submitted", "streaming"):
            self._held = True
            self.channel.refresh()

    def _view_left(self) -> None:
        if not self.channel.views:
            self.unseen()
        if self._settings.cancel_on_client_abort and not self.channel.views and self._abort is None:
            self._abort = self.seam.loop.call_later(RETURN_WITHIN, self._stop_if_alone)

    def _stop_if_alone(self) -> None:
        self._abort = None
        state = self.seam.state()
        if not self.channel.views and state.own == self._origin and state.status in ("submitted", "streaming"):
            self.seam.chat.stop()

    def fill(self, make: Callable[[], Any]) -> None:
        """Give a chat that never held a message its first ones, before the first view is filled."""
        self.deeds.hold_greetings()
        self.seam.spawn(make_first_messages(self.seam, self.deeds, make, self.redact), "the first messages")

    @property
    def is_settled(self) -> bool:
        """No turn runs."""
        return self._latest.status in ("ready", "error")

    # --- reading, from any thread -------------------------------------------------------------------------------

    def messages(self) -> tuple[UIMessage, ...]:
        """Return the messages that are shown, the unfinished one as far as it is."""
        facts = WidgetFacts(held=self._held, messages=self._local)
        if self._local is not None:
            return self._local
        if facts.held:
            return shown_messages(self._latest, facts)
        return tuple(self.seam.messages())

    def traits(self) -> dict[str, Any]:
        """Return all state traits as of one moment."""
        if not self._is_open and self.seam.is_alive:  # closed: the chat goes on, and nothing tells of it
            self._latest = self.seam.call(self.seam.state)
        state, own = self._latest, self._origin
        return {
            "messages": Messages(self.messages()),
            "status": state.status,
            "is_streaming": is_streaming(state, own),
            "is_server_streaming": is_server_streaming(state, own),
            "is_tool_continuation": state.is_tool_continuation,
            "is_recovering": state.is_recovering,
            "error": state.error,
            "pending": PendingCalls(state.pending),
            "usage": self.seam.chat.usage,
            "queue": state.queue,
        }

    def snapshot(self) -> Form:
        """Return what a saved notebook keeps; made when asked, once per history. From any thread."""
        return self.seam.call(self._snapshot)

    def _snapshot(self) -> Form:
        messages, state = self.seam.settled_messages(), self.seam.state()
        around: JsonValue = {"options": self._options(), "total": usage_of(state)[0], "branches": state.branches}
        if self._saved is None or not _same(self._saved[0], messages) or self._saved[1] != around:
            self._saved = (messages, around, saved_snapshot(messages, around, self._saved_form))
        return self._saved[2]

    # --- what the channel asks for, on the runtime ----------------------------------------------------------------

    def _facts(self, state: ChatState) -> WidgetFacts:
        return WidgetFacts(
            own=self._origin,
            held=self._held,
            messages=self._local,
            ready_to_continue=self._is_ready_to_continue(state),
            unsaved=self.seam.is_unsaved(),
            delivery=self._delivery,
            hello_every=self._place.hello_every,
            options=self._options(),
            command_ids=self.deeds.command_ids if self._is_open else {},
            schemas={name: action.input_schema for name, action in self.seam.actions.items()} if state.pending else {},
            client_tools=self._settings.client_tools,
            calls=self.deeds.site.calls if self._is_open else {},
            notices=self.deeds.notices.shown if self._is_open else {},
        )

    def _is_ready_to_continue(self, state: ChatState) -> bool:
        if self._settings.auto_continue or state.status not in ("ready", "error") or state.pending or state.queue:
            return False
        last = state.messages[-1:]
        return is_complete_with_tool_calls(last) or is_complete_with_approval_responses(last)

    def _options(self) -> Form:
        return self._described.options(self._live(), self.seam)


def _same(before: Sequence[UIMessage], after: Sequence[UIMessage]) -> bool:
    return len(before) == len(after) and all(a is b for a, b in zip(before, after, strict=True))


def _package_version() -> str:
    from .. import __version__

    return __version__
