"""The reply of a `%%chat` cell: one Markdown output that grows as it streams, and stays in the saved notebook.

In a terminal it is plain text, written as it comes.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

from chatnb._json import dumps
from chatnb.kernel.host import is_text_terminal
from chatnb.turns import Outcome, Submission

_SLICE = 0.1  # seconds between two looks at what has come

_ENDINGS = {
    "stopped": "*Stopped.*",
    "skipped": "*Skipped: another input took its place.*",
}


class ReplyOutput:
    """One display, updated in place."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._lock = threading.Lock()
        self._shown: str | None = None
        self._handle: Any = None
        self._in_terminal = is_text_terminal()

    def wait(self, submission: Submission) -> Outcome:
        """Wait for the outcome and show what comes meanwhile; calls that are due on this thread run.

        Raises:
            KeyboardInterrupt: Ctrl-C; the turn goes on.
        """
        self._start(submission, shows=False)
        while True:
            try:
                outcome = submission.result(_SLICE)
                break
            except TimeoutError:
                if submission.done:
                    outcome = submission.result()
                    break
                self._show(self._text())
        self._end(outcome)
        return outcome

    def follow(self, submission: Submission) -> None:
        """Show what comes, and do not wait."""
        self._show("")
        self._start(submission, shows=True)

    # --- reading --------------------------------------------------------------------------------------------------

    def _start(self, submission: Submission, *, shows: bool) -> None:
        thread = threading.Thread(
            target=lambda: asyncio.run(self._read(submission, shows=shows)), name="chatnb-reply", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # no threads here (Pyodide): the whole reply is shown at its end
            return

    async def _read(self, submission: Submission, *, shows: bool) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        async for chunk in submission:
            with self._lock:
                if chunk.get("type") == "text-start":
                    self._blocks.append("")
                elif chunk.get("type") == "text-delta" and self._blocks:
                    self._blocks[-1] += str(chunk.get("delta", ""))
            if shows and loop.time() >= due:
                self._show(self._text())
                due = loop.time() + _SLICE
        if shows:
            self._end(await submission)

    def _text(self) -> str:
        with self._lock:
            return "\n\n".join(block for block in self._blocks if block)

    # --- showing --------------------------------------------------------------------------------------------------

    def _end(self, outcome: Outcome) -> None:
        parts = [outcome.text or self._text()]
        if outcome.status == "awaiting":
            parts.append(_pending_text(outcome))
        elif outcome.status == "error" and outcome.error is not None:
            parts.append(f"**The turn failed:** {outcome.error.message}")
        elif outcome.status in _ENDINGS:
            parts.append(_ENDINGS[outcome.status])
        self._show("\n\n".join(part for part in parts if part))
        if self._in_terminal:
            self._write("\n")

    def _show(self, text: str) -> None:
        from IPython.display import Markdown, display

        if text == self._shown:
            return
        shown, self._shown = self._shown or "", text
        if self._in_terminal:
            self._write(text[len(shown) :] if text.startswith(shown) else f"\n\n{text}")
            return
        content = Markdown(text)  # type: ignore[no-untyped-call]
        if self._handle is None:
            self._handle = display(content, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(content)

    @staticmethod
    def _write(text: str) -> None:
        """Write to a terminal, which can't take back what it shows: words are added as they come."""
        sys.stdout.write(text)
        sys.stdout.flush()


def _pending_text(outcome: Outcome) -> str:
    """What waits for a person, and how to decide."""
    lines = ["**Waiting for you:**", ""]
    for pending in outcome.pending:
        arguments = dumps(pending.args)
        shown = arguments if len(arguments) <= 300 else arguments[:299] + "…"
        lines.append(f"- {pending.title or pending.action}: `{shown.replace('`', chr(39))}`")
    lines.append("")
    one = len(outcome.pending) == 1
    which = "" if one else "ID"
    lines.append(f"Decide in the panel, or with `chat.approve({which})` or `chat.reject({which})`.")
    if not one:
        lines.extend(f"- `{pending.id}`: {pending.title or pending.action}" for pending in outcome.pending)
    return "\n".join(lines)
