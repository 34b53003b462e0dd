"""The user's namespace over time: which names were bound last, and whether a cell is at work.

A dict keeps the place of a name that is bound anew, so the order of binding has to be watched: after each cell, after
each `run_code`, and whenever a list is made.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from chatnb.kernel.host import running_shell


class NamespaceWatch:
    """Watches one namespace.

    Args:
        namespace: Returns the user's namespace.
        hidden: Returns IPython's hidden names with what they meant.
    """

    def __init__(
        self,
        namespace: Callable[[], Mapping[str, Any]],
        hidden: Callable[[], Mapping[str, object] | None] = lambda: None,
    ) -> None:
        self.namespace = namespace
        self.hidden = hidden
        self.is_busy = False
        self._lock = threading.Lock()
        self._seen: dict[str, int] = {}
        self._order: dict[str, int] = {}
        self._turn = 0
        self._after_cell: list[weakref.WeakMethod[Callable[[], object]]] = []

    def observe(self) -> None:
        """Note which names are new or mean another object than at the last look. Any thread."""
        with self._lock:
            now = {name: id(value) for name, value in dict(self.namespace()).items()}
            self._turn += 1
            for name, identity in now.items():
                if self._seen.get(name) != identity:
                    self._order[name] = self._turn
            for name in self._seen.keys() - now.keys():
                self._order.pop(name, None)
            self._seen = now

    def recent_first(self, names: Mapping[str, Any]) -> list[str]:
        """Return names in the order of their last binding, the newest first."""
        self.observe()
        with self._lock:
            places = {name: place for place, name in enumerate(self._seen)}
            return sorted(names, key=lambda n: (self._order.get(n, 0), places.get(n, -1)), reverse=True)

    # --- cells ------------------------------------------------------------------------------------------------------

    def cell_began(self, *_: object) -> None:
        """A cell begins: IPython's event `pre_run_cell`."""
        self.is_busy = True

    def cell_ended(self, *_: object) -> None:
        """A cell has ended: IPython's event `post_run_cell`."""
        self.is_busy = False
        self.observe()
        for reference in list(self._after_cell):
            listener = reference()
            if listener is None:
                self._after_cell.remove(reference)
            else:
                listener()

    def call_after_cell(self, listener: Callable[[], object]) -> None:
        """Call a method after each cell, on the main thread, as long as its object lives."""
        self._after_cell.append(weakref.WeakMethod(listener))

    def attach(self, shell: Any) -> None:
        """Hear of a shell's cells. A cell may be running now; its end is heard."""
        shell.events.register("pre_run_cell", self.cell_began)
        shell.events.register("post_run_cell", self.cell_ended)


_watches: dict[int, NamespaceWatch] = {}
_making = threading.Lock()


def watch_of(host_namespace: Callable[[], Mapping[str, Any]]) -> NamespaceWatch:
    """Return the watch of the running IPython's namespace, or one for a script's."""
    shell = running_shell()
    with _making:
        key = id(shell)
        found = _watches.get(key)
        if found is None:
            if shell is None:
                return NamespaceWatch(host_namespace)
            found = NamespaceWatch(lambda: shell.user_ns, lambda: shell.user_ns_hidden)
            found.attach(shell)
            found.observe()
            _watches[key] = found
        return found
