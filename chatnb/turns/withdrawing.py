"""Inputs that are taken back while they wait (spec/turns.md, section 2): nothing else in their line is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .beginning import merge
from .inputs import Input
from .records import Outcome
from .submission import Submission

if TYPE_CHECKING:
    from .engine import ChatEngine


def stop_submission(engine: ChatEngine, submission: Submission) -> None:
    """Stop one input: waiting, it ends `skipped`; running, its turn is stopped; done, nothing happens."""
    input_ = submission._input
    if submission.done or input_ is None:
        return
    running = engine.queue.running
    if running is input_ or (running is not None and submission in running.submissions):
        engine.stop()  # also where the turn is that of a chat action, or goes on after a broken connection
    elif input_ in engine.steering:
        engine.steering.remove(input_)
        engine.skip(input_)
    elif input_ in engine.queue:
        _withdraw(engine, input_, submission)


def cancel_input(engine: ChatEngine, input_id: str) -> Input | None:
    """Take a line out of the queue by its id, all that was merged into it too; None when it does not wait."""
    steering: list[Input] = list(engine.steering)
    found = next((one for one in steering if one.row.id == input_id), None)
    if found is not None:
        stop_submission(engine, found.submissions[-1])
        return found
    waiting: list[Input] = list(engine.queue)
    for place in waiting:
        found = next((one for one in place.in_line() if one.row.id == input_id), None)
        if found is not None:
            _withdraw(engine, place, None if found is place else found.submissions[-1])
            return found
    return None


def _withdraw(engine: ChatEngine, input_: Input, submission: Submission | None) -> None:
    """Take sends out of a waiting input; what is left of it keeps its place."""
    gone, left = input_.without(submission)
    if left is None:
        engine.queue.remove(input_)
    else:
        engine.queue.replace(input_, left)
        for waiting in left.submissions:
            waiting._admit(left)
    for one in gone:
        engine.skip(one)
    engine.queue_changed()
    engine.kick()


def keep_unanswered(engine: ChatEngine, input_: Input) -> Outcome:
    """Let superseded messages enter the history: what would have been answered after them was taken back."""
    engine.apply_list(merge(engine.tree.messages, [i.message for i in (*input_.superseded, input_)]))
    with engine.write() as tx:
        for id_ in (*input_.other_rows, input_.row.id):
            tx.move_input(id_, {"waiting", "held"}, "done")
    return Outcome(status="skipped")
