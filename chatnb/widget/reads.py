"""The commands of a view that change nothing: hello, loads, assets, completion, export (spec/widget.md, 3.2)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from .assets import Asset, find_extras, read_extra
from .channel import Channel, error_ack
from .client_tools import ClientTools
from .commands import Answer, refusal
from .seam import ChatSeam
from .view_form import ViewForm

_EXPORTS = {
    "md": ("md", "text/markdown"),
    "html": ("html", "text/html"),
    "json": ("json", "application/json"),
    "ipynb": ("ipynb", "application/x-ipynb+json"),
}


class Reads:
    """What `WidgetDeeds` has of them. On the runtime."""

    _seam: ChatSeam
    _channel: Channel
    _form: ViewForm
    tools: ClientTools
    _greeted: Callable[[Any], None]
    _left: Callable[[], None]

    def _hello(self, command: Any, answer: Answer) -> None:
        self._greeted(command)
        if self._channel.hello(command):
            self.tools.view_came()
        answer({"ok": True})

    def _bye(self, command: Any, answer: Answer) -> None:
        self._channel.leave(command.view)
        self.tools.view_left(command.view)
        self._left()
        answer({"ok": True})

    def _load_earlier(self, command: Any, answer: Answer) -> None:
        found = self._channel.load_earlier(command.view, command.before)
        answer({"ok": True} if found else error_ack("not_found", "There is no such message any more."))

    def _load_part(self, command: Any, answer: Answer) -> None:
        found = self._channel.load_part(command.message_id, command.index)
        answer({"ok": True} if found else error_ack("not_found", "There is no such text any more."))

    def _get_asset(self, command: Any, answer: Answer) -> None:
        asset = self._channel.find_asset(command.hash)
        if asset is None:
            answer(error_ack("not_found", "This content is gone."))
            return
        self._channel.send_asset(command.hash, asset)
        answer({"ok": True})

    def _get_extra(self, command: Any, answer: Answer) -> None:
        asset = read_extra(command.name)
        if asset is None:
            answer(error_ack("not_found", "The front end has no such part."))
            return
        name = find_extras()[command.name]
        self._channel.send_asset(name, asset, command.name)
        answer({"ok": True, "result": {"hash": name}})

    def _complete(self, command: Any, answer: Answer) -> None:
        answer({"ok": True, "result": dict(self._seam.complete(command.prefix))})

    def _preview(self, command: Any, answer: Answer) -> None:
        async def work() -> None:
            found = await self._seam.preview(command.name)
            answer({"ok": True, "result": dict(found)} if found else error_ack("not_found", "There is no such name."))

        self._later(work, answer)

    def _export(self, command: Any, answer: Answer) -> None:
        ending, media_type = _EXPORTS[command.format]
        data = self._form.text(self._seam.chat.export(command.format)).encode("utf-8", "replace")
        name = hashlib.sha256(data).hexdigest()
        self._channel.send_asset(name, Asset(media_type, data))
        filename = "".join(sign if sign.isalnum() or sign in "-_" else "-" for sign in self._seam.chat.id)
        answer({"ok": True, "result": {"hash": name, "filename": f"{filename}.{ending}", "mediaType": media_type}})

    def _later(self, work: Callable[[], Any], answer: Answer) -> None:
        async def guarded() -> None:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - whatever it meets is the answer to the command
                answer(refusal(error))

        self._seam.spawn(guarded(), "a command of a view")
