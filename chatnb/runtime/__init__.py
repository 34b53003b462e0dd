"""The runtime: the thread and loop on which chatnb works, and the ways in and out of it.

It owns the mailbox, the queue of calls that want the main thread and the pump that serves them, Ctrl-C while they run,
the thread pool and executors, what happens at a fork and at exit. It knows nothing of chats or IPython
(spec/notebook.md, sections 1 and 2).
"""

from __future__ import annotations

from chatnb.runtime.kinds import InlineRuntime, ScriptHost
from chatnb.runtime.process import get_runtime
from chatnb.runtime.runtime import Runtime

__all__ = ["InlineRuntime", "Runtime", "ScriptHost", "get_runtime"]
