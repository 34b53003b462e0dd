"""The live wire between one chat and the views of one widget: what is sent, when, and to whom.

Everything here runs on the chat's runtime, so nothing is locked. A change marks the picture as stale or takes the short
way of a text delta; the pacer asks for the next frame; the frame builder finds what to say.
"""

from __future__ import annotations

import logging
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .._json import JsonValue
from ..turns.records import ChatState, Update
from .assets import Asset, AssetShelf, asset_frames
from .cutting import escaped
from .frames import FrameBuilder
from .operations import JsonObject
from .pacer import Pacer, Timers
from .picture import Picture, WidgetFacts, make_picture
from .protocol import VERSION, HelloCommand
from .snapshot import PAGE, page_frames, reset_cost, reset_frames
from .view_form import Form, ViewForm

logger = logging.getLogger("chatnb.widget")

Send = Callable[[JsonObject, Sequence[bytes]], None]
VIEWS_KEPT = 100
FEW = 20
"""Messages that a view must still show after a deletion; with fewer it gets a `reset`, since there are earlier ones."""
_BACKLOG = 256 * 1024


@dataclass(slots=True)
class ViewRecord:
    """One view that has said hello.

    Attributes:
        nonce: What its decisions carry.
        used: Counts up; the view that did something last has the highest.
        hidden: How many messages, from the first, it has not loaded.
    """

    id: str
    nonce: str
    used: int = 0
    hidden: int = 0
    can_insert: bool = False
    locale: str | None = None
    dark: bool = False


class Channel:
    """Sends frames to the views of one widget.

    Args:
        send: Puts one frame on the comm. May raise; the frame is then lost, as any frame may be.
        timers: The runtime's loop.
        read_state: Returns the chat's state.
        read_facts: Returns what the widget knows beyond it.
        form: How messages are shown.
        shelf: The assets.
    """

    def __init__(
        self,
        *,
        send: Send,
        timers: Timers,
        read_state: Callable[[], ChatState],
        read_facts: Callable[[ChatState], WidgetFacts],
        form: ViewForm,
        shelf: AssetShelf,
        package: str = "",
    ) -> None:
        self.epoch = secrets.token_urlsafe(4)  # in every frame
        self._send_raw = send
        self._read_state = read_state
        self._read_facts = read_facts
        self._form = form
        self._shelf = shelf
        self._package = package
        self._builder = FrameBuilder(self.epoch, form)
        self._pacer = Pacer(timers, self._pull, self._has_more, self._send_mark)
        self._queue: deque[tuple[JsonObject, Sequence[bytes]]] = deque()
        self._backlog = 0
        self._stale = True
        self._texts: list[Update] = []
        self._uses = 0
        self.views: OrderedDict[str, ViewRecord] = OrderedDict()

    @property
    def seq(self) -> int:
        """The number of the last `ops` frame, sent or about to be."""
        return self._builder.seq

    @property
    def picture(self) -> Picture:
        """What views show, but for text deltas."""
        return self._builder.picture

    # --- changes ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take a picture that no frame tells of, since nobody looks: the first view gets a `reset`."""
        self._gather()
        self._builder.cut()
        self._builder.is_reset_due = False
        self._shelf.forget()

    def on_update(self, update: Update) -> None:
        """Take up one change of the chat. While nobody looks, it is enough to know that there was one."""
        if not self.views:
            self._stale = True
            return
        change = update.change
        if update.kind == "chunk" and change is not None and change.kind == "text":
            self._texts.append(update)  # looked at once a frame, all together
        elif update.kind == "change":
            self._take_texts()
            self._builder.change(update.data)
        elif update.kind != "chunk" or change is not None:
            self._stale = True
        self._pacer.wake()

    def refresh(self) -> None:
        """Look for changes of what the widget itself knows."""
        self._stale = True
        if self.views:
            self._pacer.wake()

    def close(self) -> None:
        """Send what is left, and nothing more."""
        self._flush()
        while self._queue:
            self._put(*self._queue.popleft())
        self._pacer.close()
        # Whoever still holds the widget would hold what its views showed: the whole history.
        self._builder = FrameBuilder(self.epoch, self._form)
        self._form.prune((), keep=0)
        self._shelf.clear()
        self._texts.clear()

    # --- views --------------------------------------------------------------------------------------------------

    def hello(self, command: HelloCommand) -> bool:
        """Answer a view: its secret, then a mark if it is up to date, else everything. False: no common version."""
        if VERSION not in command.versions:
            self.now({"type": "unsupported", "to": command.view, "versions": [VERSION], "package": self._package})
            return False
        if not self.views:
            self.start()
        view = self.views.get(command.view)
        if view is None:
            view = ViewRecord(command.view, secrets.token_hex(16))
            self.views[view.id] = view
            while len(self.views) > VIEWS_KEPT:
                self.views.popitem(last=False)
        view.can_insert, view.locale, view.dark = command.can_insert, command.locale, command.dark
        self.now({"type": "secret", "to": view.id, "nonce": view.nonce})
        self._flush()
        last = command.last
        if last is not None and last.epoch == self.epoch and last.seq == self.seq:
            self.now({"type": "mark", "seq": self.seq})
        else:
            reason = "hello" if last is None or last.epoch != self.epoch else "gap"
            self.reset(view, reason)
        return True

    def reset(self, view: ViewRecord, reason: str) -> None:
        """Send everything to one view, as of the last number."""
        view.hidden = max(0, len(self._builder.keys) - PAGE)
        for frame in reset_frames(self._builder, self.epoch, view.id, reason):
            self._put(frame, ())
        self._queue_assets()

    def touch(self, view_id: str) -> None:
        """Note that a view was used."""
        view = self.views.get(view_id)
        if view is not None:
            self._uses += 1
            view.used = self._uses

    def leave(self, view_id: str) -> None:
        """A view is gone."""
        self.views.pop(view_id, None)

    def load_earlier(self, view_id: str, before: str) -> bool:
        """Send a page of earlier messages; False when there is no such message."""
        self._flush()
        frames = page_frames(self._builder, self.epoch, view_id, before)
        if frames is None:
            return False
        view = self.views.get(view_id)
        if view is not None:
            view.hidden = min(view.hidden, max(0, list(self._builder.keys).index(before) - PAGE))
        for frame in frames:
            self._put(frame, ())
        self._queue_assets()
        return True

    def load_part(self, message_id: str, index: int) -> bool:
        """Send a part in full, to all; False when there is none."""
        self._flush()
        found = self._builder.load_part(message_id, index)
        self._pacer.wake()
        return found

    def send_asset(self, name: str, asset: Asset, extra: str | None = None) -> None:
        """Send an asset, in its turn."""
        for frame, data in asset_frames(name, asset, extra):
            self._queue.append((self._complete(frame), (data,)))
        self._pacer.wake()

    def find_asset(self, name: str) -> Asset | None:
        """Return an asset that is still kept."""
        return self._shelf.find(name)

    def now(self, frame: Form) -> None:
        """Send a frame that has no number at once. Those that count make the paced ones wait."""
        self._put(self._complete(frame), ())
        if frame["type"] != "ack":
            self._pacer.spend()

    def queue(self, frame: Form) -> None:
        """Send a frame without number in its turn."""
        self._queue.append((self._complete(frame), ()))
        self._pacer.wake()

    # --- sending ------------------------------------------------------------------------------------------------

    def _take_texts(self) -> None:
        """Take the short way with the deltas that have come, as long as nothing else has changed."""
        texts, self._texts = self._texts, []
        for update in texts:
            change = update.change
            if (
                self._stale
                or change is None
                or change.index is None
                or change.field is None
                or change.delta is None
                or update.message_id is None
                or not self._builder.text(update.message_id, change.index, change.field, change.delta)
            ):
                self._stale = True
                return  # the picture has the others

    def _gather(self) -> None:
        self._stale = False
        self._texts.clear()
        state = self._read_state()
        picture = make_picture(state, self._read_facts(state), self._form)
        hidden = {view.id: view.hidden for view in self.views.values()}
        before, length = self._builder.keys, len(self._builder.keys)
        changed_at = _common(before, picture)
        self._builder.compare(picture)
        self._form.prune(picture.messages)
        for view_id, unloaded in hidden.items():
            left = len(picture.messages) - unloaded
            if unloaded and len(picture.messages) < length and (changed_at < unloaded or left < FEW):
                self._builder.is_reset_due = True
                logger.debug("view %s lost most of what it shows", view_id)

    def _flush(self) -> None:
        """Bring the builder up to date and number what it gathered; the frames wait for their turn."""
        self._take_texts()
        if self._stale:
            self._gather()
        if not self._builder.has_ops and not self._builder.is_reset_due:
            return
        frames = self._builder.cut()
        size = sum(escaped(frame) for frame in frames) if len(frames) > 1 else 0
        if size and size + self._backlog > _BACKLOG:
            # A backlog dearer than telling everything anew is dropped. What a `reset` would cut is counted in full.
            dear = size + self._backlog > 1.1 * reset_cost(self._builder) + _BACKLOG
            self._builder.is_reset_due = self._builder.is_reset_due or dear
        if self._builder.is_reset_due:
            self._reset_all()
            return
        for frame in frames:
            self._queue.append((frame, ()))
        self._backlog += size
        self._queue_assets()

    def _reset_all(self) -> None:
        self._builder.is_reset_due = False
        self._queue = deque(item for item in self._queue if item[0]["type"] != "ops")
        self._backlog = 0
        for view in list(self.views.values()):
            self.reset(view, "backlog")

    def _queue_assets(self) -> None:
        if not self.views:
            self._shelf.forget()
            return
        for name in self._shelf.take_unsent():
            asset = self._shelf.find(name)
            if asset is not None:
                self.send_asset(name, asset)

    def _pull(self) -> bool:
        if not self._queue:
            self._backlog = 0
            self._flush()
        if not self._queue:
            return False
        self._put(*self._queue.popleft())
        return True

    def _has_more(self) -> bool:
        return bool(self._queue or self._texts) or self._stale or self._builder.has_ops

    def _send_mark(self) -> None:
        self._put(self._complete({"type": "mark", "seq": self.seq}), ())

    def _complete(self, frame: Form) -> JsonObject:
        return {"v": VERSION, "epoch": self.epoch, **self._form.clean(frame)}

    def _put(self, frame: JsonObject, buffers: Sequence[bytes]) -> None:
        try:
            self._send_raw(frame, buffers)
        except Exception:
            logger.debug("a frame could not be sent", exc_info=True)


def _common(keys: Sequence[str], picture: Picture) -> int:
    """Return how many messages from the first have the same ids as before."""
    place = 0
    for key, message in zip(keys, picture.messages, strict=False):
        if key != message.id:
            break
        place += 1
    return place


def error_ack(code: str, message: str, field: str | None = None) -> dict[str, JsonValue]:
    """Return the fields of an `ack` that refuses."""
    error: dict[str, JsonValue] = {"code": code, "message": message}
    if field is not None:
        error["field"] = field
    return {"ok": False, "error": error}
