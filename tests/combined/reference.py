"""What the history must be: a tree with a head and a stack of redo (spec/turns.md, sections 4 and 5).

Written from the spec alone, without the code under test: nodes in a list, a head, and for each node the child that was
shown last. Answers get their ids from what the inputs' outcomes say.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any


@dataclass(eq=False)
class Node:
    """One message in its place. `id` None: not known yet; it is learned from the chain."""

    id: str | None
    role: str
    parent: Node | None
    wire: Any = None
    shown: Node | None = None


class LostError(Exception):
    """The reference can't tell what follows: it has not seen what a message holds."""


@dataclass
class Reference:
    """The tree."""

    nodes: list[Node] = field(default_factory=list)
    head: Node | None = None
    redo: list[Node | None] = field(default_factory=list)

    # --- reading ------------------------------------------------------------------------------------------------

    def path(self, node: Node | None) -> list[Node]:
        """Return the nodes from the root to a node."""
        found: list[Node] = []
        while node is not None:
            found.append(node)
            node = node.parent
        return found[::-1]

    @property
    def chain(self) -> list[Node]:
        """The nodes of the chain."""
        return self.path(self.head)

    def on_chain(self, id: str) -> Node | None:
        """Return the chain's node with a message id."""
        return next((n for n in reversed(self.chain) if n.id == id), None)

    def find(self, id: str) -> Node | None:
        """Return the node with a message id: on the chain, else the newest."""
        return self.on_chain(id) or next((n for n in reversed(self.nodes) if n.id == id), None)

    def siblings(self, node: Node) -> list[Node]:
        """Return the versions of a message, in order of making."""
        return [n for n in self.nodes if n.parent is node.parent]

    # --- moving -------------------------------------------------------------------------------------------------

    def _move(self, head: Node | None, redo: list[Node | None] | None = None) -> None:
        """Move the head; without a stack, a head that moves empties it."""
        if head is not self.head or redo is not None:
            self.redo = list(redo or ())
        path = self.path(head)
        for parent, child in pairwise(path):
            parent.shown = child
        self.head = head

    def add(self, id: str | None, role: str, wire: Any = None) -> Node:
        """Append a message."""
        node = Node(id, role, self.head, wire)
        self.nodes.append(node)
        self._move(node)
        return node

    def add_branch(self, id: str, role: str) -> None:
        """Add a message beside the chain: one that was refused."""
        self.nodes.append(Node(id, role, self.head))

    def send(self, id: str) -> None:
        """Take in a message of the user: at the end; one whose id is on the chain ends it."""
        self.add(id, "user")

    def answer(self, id: str | None) -> None:
        """Take in an answer: a new node, or the message that goes on."""
        if self.head is None or self.head.role != "assistant" or self.head.id != id:
            self.add(id, "assistant")

    def _back(self, head: Node | None) -> None:
        if head is not self.head:
            self._move(head, [*self.redo, self.head])

    def undo(self) -> None:
        """Take back the last message of the user."""
        if self.head is None:
            return
        last = next((n for n in reversed(self.chain) if n.role == "user"), None)
        self._back(last.parent if last is not None else None)

    def take_back(self) -> None:
        """Redo."""
        if self.redo:
            *rest, head = self.redo
            self._move(head, rest)

    def clear(self) -> None:
        """Empty the chain."""
        self._back(None)

    def rollback(self, id: str) -> bool:
        """Keep up to a message."""
        node = self.on_chain(id)
        if node is not None:
            self._back(node)
        return node is not None

    def switch(self, id: str) -> bool:
        """Show another version."""
        node = self.find(id)
        if node is None:
            return False
        while node.shown is not None:
            node = node.shown
        self._move(node)
        return True

    def edit(self, id: str) -> str | None:
        """Put another version beside a message; return its role."""
        node = self.on_chain(id)
        if node is None:
            return None
        fresh = Node(None, node.role, node.parent)
        self.nodes.append(fresh)
        self._move(fresh)
        return node.role

    def to_answer(self, id: str | None) -> Node | str:
        """Return the message of the user that a regenerate answers, or what is wrong."""
        chain = self.chain
        if id is None:
            if chain and chain[-1].role == "user":
                return chain[-1]
            index = next((i for i in reversed(range(len(chain))) if chain[i].role == "assistant"), None)
        else:
            index = next((i for i, n in enumerate(chain) if n.id == id), None)
            if index is None:
                return "UnknownMessageError"
            if chain[index].role == "user":
                return chain[index]
        before = [n for n in chain[: index or 0] if n.role == "user"]
        return before[-1] if before else "InputError"

    def regenerate(self, node: Node) -> None:
        """Put the head where the new answer goes."""
        self._move(node)

    def remove(self, id: str) -> bool:
        """Drop a message from the chain."""
        if self.on_chain(id) is None:
            return False
        self.set([n for n in self.chain if n.id != id])
        return True

    def keep(self, end: int) -> None:
        """Keep the chain up to a place, as Python slices count."""
        kept = self.chain[:end]
        self._move(kept[-1] if kept else None)

    def set(self, wanted: list[Node]) -> None:
        """Make a list of known messages the chain: what is there already is followed, the rest is new."""
        head: Node | None = None
        is_fresh = False
        for former in wanted:
            match = None if is_fresh else self._equal_child(head, former)
            if match is None:
                is_fresh = True
                match = Node(former.id, former.role, head, former.wire)
                self.nodes.append(match)
            head = match
        self._move(head)

    def _equal_child(self, parent: Node | None, wanted: Node) -> Node | None:
        candidates = [n for n in self.nodes if n.parent is parent and n.id == wanted.id]
        on_chain = [n for n in candidates if n in self.chain]
        for node in [*on_chain, *reversed(candidates)]:
            if node is wanted:
                return node
            if node.wire is None or wanted.wire is None:
                raise LostError
            if node.wire == wanted.wire:
                return node
        return None

    # --- learning -----------------------------------------------------------------------------------------------

    def agree(self, messages: list[Any]) -> list[str]:
        """Hold the chain against the shown messages; learn ids and contents. Return what differs."""
        mine = self.chain
        expected = [(n.role, n.id) for n in mine]
        found = [(m.role, m.id) for m in messages]
        if len(mine) != len(messages) or any(
            role != r or (id_ is not None and id_ != i) for (role, id_), (r, i) in zip(expected, found, strict=True)
        ):
            return [f"the chain is {found}, expected {expected}"]
        for node, message in zip(mine, messages, strict=True):
            node.id, node.wire = message.id, message.to_wire()
        return []
