"""The message tree of one chat: nodes, their order, the head and the chain it names.

Order comes from parents and ordinals alone; clocks play no part. A planning method returns a `TreeEdit` and changes
nothing; `commit` applies it once it has been stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from .._json import JsonValue
from ..messages import UIMessage
from .nodes import Branch, Maker, Node, TreeEdit

Load = Callable[[list[str]], Mapping[str, UIMessage]]
"""Reads messages by node id; called once for all that is missing."""


class Tree:
    """The nodes of one chat in memory. Messages are loaded on first use."""

    def __init__(self, nodes: Iterable[Node] = (), head: str | None = None, load: Load | None = None) -> None:
        # By ordinal; nothing else is made of them yet, since a chat may have 50,000.
        self._nodes: dict[str, Node] = {node.node_id: node for node in nodes}
        self._children: dict[str | None, list[str]] | None = None
        self._messages: dict[str, UIMessage] = {}
        self._load = load
        self._next_ordinal = max((node.ordinal for node in self._nodes.values()), default=-1) + 1
        self.revision = 0
        self.head = head
        self._chain: tuple[str, ...] | None = None
        self._chain_messages: tuple[UIMessage, ...] | None = None

    def _add(self, node: Node) -> None:
        self._nodes[node.node_id] = node
        if self._children is not None:
            self._children.setdefault(node.parent, []).append(node.node_id)
        self._next_ordinal = max(self._next_ordinal, node.ordinal + 1)

    def _children_of(self, parent: str | None) -> list[str]:
        """Return the children of a node in order of making. Who belongs to whom is found out at the first question."""
        children = self._children
        if children is None:
            children = {}
            for node in self._nodes.values():
                children.setdefault(node.parent, []).append(node.node_id)
            self._children = children
        return children.get(parent, [])

    # --- reading ------------------------------------------------------------------------------------------------

    def node(self, node_id: str) -> Node:
        """Return a node."""
        return self._nodes[node_id]

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._nodes

    def message(self, node_id: str) -> UIMessage:
        """Return a node's message."""
        if node_id not in self._messages:
            self.preload([node_id])
        return self._messages[node_id]

    def preload(self, node_ids: Iterable[str]) -> None:
        """Load the messages of these nodes that are not loaded yet, at once."""
        missing = [n for n in node_ids if n not in self._messages]
        if missing and self._load is not None:
            self._messages.update(self._load(missing))

    def path(self, node_id: str | None) -> tuple[str, ...]:
        """Return the node ids from the root to a node."""
        found: list[str] = []
        while node_id is not None:
            found.append(node_id)
            node_id = self._nodes[node_id].parent
        return tuple(reversed(found))

    @property
    def chain(self) -> tuple[str, ...]:
        """The node ids of the chain."""
        if self._chain is None:
            self._chain = self.path(self.head)
        return self._chain

    @property
    def messages(self) -> tuple[UIMessage, ...]:
        """The messages of the chain; unchanged ones are the same objects as before."""
        if self._chain_messages is None:
            chain = self.chain
            self.preload(chain)
            known = self._messages
            self._chain_messages = tuple(known[n] for n in chain)
        return self._chain_messages

    @property
    def is_loaded(self) -> bool:
        """The chain's messages are in memory, so that reading them touches nothing."""
        return self._chain_messages is not None

    def messages_of(self, node_id: str | None) -> tuple[UIMessage, ...]:
        """Return the messages of the chain that would end in a node."""
        path = self.path(node_id)
        self.preload(path)
        return tuple(self._messages[n] for n in path)

    def all_messages(self, role: str) -> list[UIMessage]:
        """Return the messages of a role on all branches."""
        node_ids = [n.node_id for n in self._nodes.values() if n.role == role]
        self.preload(node_ids)
        return [self._messages[n] for n in node_ids]

    def find(self, id: str) -> str | None:
        """Return the node of a node id or message id: on the chain if it is there, else the newest one."""
        if id in self._nodes:
            return id
        for node_id in reversed(self.chain):
            if self._nodes[node_id].message_id == id:
                return node_id
        return self.newest(id)

    def newest(self, message_id: str) -> str | None:
        """Return the newest node with a message id, or None."""
        found = [n for n in self._nodes.values() if n.message_id == message_id]
        return max(found, key=lambda n: n.ordinal).node_id if found else None

    def on_chain(self, message_id: str) -> str | None:
        """Return the chain's node with a message id, or None."""
        for node_id in reversed(self.chain):
            if self._nodes[node_id].message_id == message_id:
                return node_id
        return None

    def siblings(self, node_id: str) -> list[str]:
        """Return a node's siblings, itself included, in order of making."""
        return self._children_of(self._nodes[node_id].parent)

    def branches(self, id: str) -> list[Branch]:
        """Return the siblings of a message; empty for an unknown id."""
        node_id = self.find(id)
        if node_id is None:
            return []
        chain = set(self.chain)
        siblings = self.siblings(node_id)
        self.preload(siblings)
        return [Branch(n, self._messages[n], i, n in chain) for i, n in enumerate(siblings)]

    def branch_counts(self) -> dict[str, tuple[int, int]]:
        """Return index and count by message id, for the chain's messages that have siblings."""
        counts: dict[str, tuple[int, int]] = {}
        for node_id in self.chain:
            siblings = self.siblings(node_id)
            if len(siblings) > 1:
                counts[self._nodes[node_id].message_id] = (siblings.index(node_id), len(siblings))
        return counts

    def leaf_shown_below(self, node_id: str) -> str:
        """Return the leaf that was last shown below a node."""
        child = self._nodes[node_id].shown_child
        while child is not None:
            node_id = child
            child = self._nodes[node_id].shown_child
        return node_id

    # --- planning -----------------------------------------------------------------------------------------------

    def plan_head(self, head: str | None) -> TreeEdit:
        """Plan to move the head to a node (None: an empty chain)."""
        edit = TreeEdit(self.head, head)
        if head is not None:
            self._plan_shown(edit, self.path(head))
        return edit

    def plan_list(
        self,
        messages: Sequence[UIMessage],
        new_id: Callable[[], str],
        *,
        in_place: Mapping[str, UIMessage] | None = None,
        made_by: Mapping[str, Maker] | None = None,
    ) -> TreeEdit:
        """Plan a chain that holds exactly these messages.

        The longest unchanged prefix of nodes stays; then children that are there already are followed as far as they
        are equal; the rest becomes new nodes below. Content that a node of the old chain holds is shared.

        Args:
            messages: The wanted chain.
            new_id: Makes node ids.
            in_place: Messages of nodes that change in place (a continued answer).
            made_by: By message id, who made a new message.
        """
        edit = TreeEdit(self.head, None, messages=dict(in_place or {}))
        chain = self.chain
        position = self._same_prefix(messages)
        parent = chain[position - 1] if position else None
        first = max(position - 1, 0)
        path = list(chain[first:position])
        while position < len(messages):
            match = self._equal_child(parent, messages[position], edit, chain[position : position + 1])
            if match is None:
                break
            path.append(match)
            parent = match
            position += 1
        contents = self._contents(chain[position:]) if position < len(messages) else {}
        for message in messages[position:]:
            node = self._new_node(edit, message, parent, contents, new_id, (made_by or {}).get(message.id))
            edit.nodes.append((node, message))
            path.append(node.node_id)
            parent = node.node_id
        edit.head = parent
        self._plan_shown(edit, path)
        return edit

    def _same_prefix(self, messages: Sequence[UIMessage]) -> int:
        """Return how many messages at the head of the list are those of the chain.

        Compared in slices: that looks at identity first, so that a long history costs no more than a glance.
        """
        if not self.is_loaded:
            return 0
        mine = self.messages
        low, high = 0, min(len(mine), len(messages))
        given = tuple(messages)
        while low < high:
            middle = (low + high + 1) // 2
            if mine[low:middle] == given[low:middle]:
                low = middle
            else:
                high = middle - 1
        return low

    def _contents(self, node_ids: Sequence[str]) -> dict[str, list[str]]:
        contents: dict[str, list[str]] = {}
        for node_id in node_ids:
            contents.setdefault(self._nodes[node_id].message_id, []).append(node_id)
        return contents

    def _new_node(
        self,
        edit: TreeEdit,
        message: UIMessage,
        parent: str | None,
        contents: Mapping[str, list[str]],
        new_id: Callable[[], str],
        maker: Maker | None,
    ) -> Node:
        content = next((n for n in contents.get(message.id, ()) if self.message(n) == message), None)
        if maker is None and content is not None:
            maker = Maker(self._nodes[content].turn_id, self._nodes[content].kernel_id)
        node_id = maker.node_id if maker is not None else None
        if node_id is None or node_id in self._nodes or any(made.node_id == node_id for made, _ in edit.nodes):
            node_id = new_id()  # a hook has moved a message that goes on, or put it there twice
        return Node(
            node_id=node_id,
            message_id=message.id,
            parent=parent,
            ordinal=self._next_ordinal + len(edit.nodes),
            content_id=self._nodes[content].content_id if content is not None else node_id,
            role=message.role,
            turn_id=maker.turn_id if maker is not None else None,
            kernel_id=maker.kernel_id if maker is not None else None,
        )

    def plan_branch(
        self, parent: str | None, message: UIMessage, new_id: Callable[[], str], **made_by: str | None
    ) -> TreeEdit:
        """Plan one new node below a parent, with the head where it is (a refused message)."""
        node_id = new_id()
        node = Node(
            node_id=node_id,
            message_id=message.id,
            parent=parent,
            ordinal=self._next_ordinal,
            content_id=node_id,
            role=message.role,
            **made_by,
        )
        return TreeEdit(self.head, self.head, nodes=[(node, message)])

    def _equal_child(
        self, parent: str | None, message: UIMessage, edit: TreeEdit, likely: tuple[str, ...]
    ) -> str | None:
        children = self._children_of(parent)
        candidates = [n for n in likely if self._nodes[n].parent == parent]
        candidates += [n for n in reversed(children) if n not in candidates]
        for node_id in candidates:
            if self._nodes[node_id].message_id != message.id:
                continue
            known = edit.messages.get(node_id) or self.message(node_id)
            if known is message or known == message:
                return node_id
        return None

    def _plan_shown(self, edit: TreeEdit, path: Sequence[str]) -> None:
        fresh = {node.node_id for node, _ in edit.nodes}
        for parent, child in pairwise(path):
            if parent in fresh or self._nodes[parent].shown_child != child:
                edit.shown[parent] = child

    # --- committing ---------------------------------------------------------------------------------------------

    def commit(self, edit: TreeEdit) -> None:
        """Apply a stored edit."""
        self.revision += 1
        for node, message in edit.nodes:
            self._add(node)
            if message is not None:
                self._messages[node.node_id] = message
        self._messages.update(edit.messages)
        for node_id, content_id in edit.contents.items():
            self._nodes[node_id] = replace(self._nodes[node_id], content_id=content_id)
        for parent, child in edit.shown.items():
            self._nodes[parent] = replace(self._nodes[parent], shown_child=child)
        if edit.nodes or edit.messages or edit.head != self.head:
            self._move_chain(edit)
        self.head = edit.head

    def _move_chain(self, edit: TreeEdit) -> None:
        """Carry the cached chain over to the edited one where they share its beginning; else forget it."""
        base = edit.nodes[0][0].parent if edit.nodes else edit.head
        fresh = tuple(node.node_id for node, _ in edit.nodes)
        place = self._place(base)
        if place is None or self._chain is None or edit.head != (fresh[-1] if fresh else base):
            self._chain = self._chain_messages = None
            return
        chain = self._chain[: place + 1] + fresh
        self._chain = chain
        if self._chain_messages is None:
            return
        messages = self._chain_messages[: place + 1] + tuple(self._messages[node_id] for node_id in fresh)
        for node_id, message in edit.messages.items():
            changed = self._place(node_id)
            if changed is not None:
                messages = (*messages[:changed], message, *messages[changed + 1 :])
        self._chain_messages = messages

    def _place(self, node_id: str | None) -> int | None:
        """Return where a node stands in the cached chain, looked for from its end; -1 for the place before all."""
        if node_id is None:
            return -1
        chain = self._chain or ()
        return next((i for i in range(len(chain) - 1, -1, -1) if chain[i] == node_id), None)

    def to_json(self) -> JsonValue:
        """Return the tree for an export with branches: nodes in order of making, and the head."""
        self.preload(self._nodes)
        return {
            "head": self.head,
            "nodes": [
                {
                    "id": node.node_id,
                    "parent": node.parent,
                    "shownChild": node.shown_child,
                    "message": self._messages[node.node_id].to_wire(),
                }
                for node in sorted(self._nodes.values(), key=lambda n: n.ordinal)
            ],
        }
