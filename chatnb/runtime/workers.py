"""Daemon threads: the pool for `run_in="thread"`, one worker a key, and the notifier.

The standard library's pools are joined when the interpreter ends, so that one stuck function would keep a kernel from
leaving. These are not.
"""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable

from chatnb.runtime.tasks import log_failure

Job = Callable[[], None]


def _run(job: Job) -> None:
    try:
        job()
    except BaseException as error:  # noqa: BLE001 - a worker outlives its jobs
        log_failure("A job of a worker thread", error)


class Pool:
    """At most `size` threads, started when needed, which take jobs in order."""

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._count = 0

    def submit(self, job: Job) -> None:
        """Run `job` on one of the threads as soon as one is free."""
        with self._lock:
            if self._idle:
                self._idle -= 1  # that thread is as good as taken
            elif self._count < self._size:
                self._count += 1
                threading.Thread(target=self._work, name=f"{self._name}-{self._count}", daemon=True).start()
        self._jobs.put(job)

    def _work(self) -> None:
        while True:
            _run(self._jobs.get())
            with self._lock:
                # A job that is queued already has its thread, unless all threads were busy when it came.
                if self._jobs.empty():
                    self._idle += 1


class Worker:
    """One thread that runs jobs in order, and leaves after a while without any."""

    def __init__(self, name: str, idle_for: float = 30.0) -> None:
        self._name = name
        self._idle_for = idle_for
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_running = False

    def submit(self, job: Job) -> None:
        """Run `job` after those that came before; in a copy of the caller's context."""
        context = contextvars.copy_context()
        with self._lock:
            self._jobs.put(lambda: context.run(job))
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=self._idle_for)
            except queue.Empty:
                with self._lock:
                    if self._jobs.empty():
                        self._is_running = False
                        return
                continue
            _run(job)


class Workers:
    """One `Worker` for each key."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._workers: dict[str, Worker] = {}

    def submit(self, key: str, job: Job) -> None:
        """Run `job` on the key's worker."""
        with self._lock:
            worker = self._workers.get(key)
            if worker is None:
                worker = self._workers[key] = Worker(f"{self._name}-{key}")
        worker.submit(job)

    def leave(self, key: str) -> None:
        """Leave the key's worker behind with the job that does not end; the next job gets another one."""
        with self._lock:
            self._workers.pop(key, None)
