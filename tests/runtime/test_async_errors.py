"""Errors raised in another thread leave nothing behind in the interpreter (chatnb/runtime/async_errors.py)."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Python 3.11 never comes back from the first function it profiles while it believes that an error is on its way.
PROFILED = """
thread = threading.Thread(target=work)
thread.start()
thread.join()

def profiled():
    return "free"

sys.setprofile(lambda *_: None)
told = profiled()
sys.setprofile(None)
print(told)
"""
HEAD = """
import sys, threading, time
from types import SimpleNamespace
from chatnb.kernel.summaries_time import within
from chatnb.runtime.interrupt import ThreadGuard

def endless():
    while True:
        pass

def call(function):
    entry = SimpleNamespace(wanted=False, pump=None)
    slot = guard.run(entry, lambda slot: slot.enter(lambda: function(entry), {}))
    return slot

guard = ThreadGuard()
"""
A_CALL = """
def work():
    assert call(lambda entry: 5).value == 5
"""
A_STOPPED_CALL = """
def loop(entry):
    threading.Thread(target=guard.interrupt, args=(entry,)).start()
    endless()

def work():
    assert type(call(loop).error) is KeyboardInterrupt
    assert call(lambda entry: 5).value == 5
"""
A_STOP_THAT_COMES_LATE = """
def last_words(entry):
    try:
        guard.interrupt(entry)
        endless()
    except KeyboardInterrupt:
        guard.interrupt(entry)

def work():
    call(last_words)
    assert call(lambda entry: 5).value == 5
"""
A_SUMMARY_THAT_TAKES_TOO_LONG = """
def work():
    for slow in (endless, lambda: time.sleep(0.1)):
        try:
            within(0.02, slow)
        except TimeoutError:
            continue
        raise AssertionError
"""


class TestInterpreter:
    @pytest.mark.parametrize("work", [A_CALL, A_STOPPED_CALL, A_STOP_THAT_COMES_LATE, A_SUMMARY_THAT_TAKES_TOO_LONG])
    def test_can_be_profiled_afterwards(self, work: str) -> None:
        """A debugger or a profiler that starts after a call, a stop or a slow summary does not hang the process."""
        program = HEAD + work + PROFILED
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
        assert (done.stdout, done.stderr) == ("free\n", "")
