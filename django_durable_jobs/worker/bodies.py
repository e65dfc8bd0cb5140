"""Where a body runs: its function, its branches, its coroutine."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context, copy_context
from typing import Any, Final, Protocol, TypeVar

from asgiref.sync import async_to_sync

from django_durable_jobs.steps.execution import one_after_another

from .connections import drop_connections, fresh_connections
from .crew import Run
from .loop import BodyLoop

T = TypeVar("T")

Branch = Callable[[], None]


class Bodies(Protocol):
    """Runs the parts of one attempt that are the project's code."""

    def run(self, body: Callable[[], T]) -> T:
        """Call a plain body."""
        ...

    def run_async(self, body: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Await an async body to its end."""
        ...

    def run_branches(self, branches: Sequence[Branch], at_once: int) -> None:
        """Run the branches of a plain body, and return when each has ended."""
        ...


class BodiesHere:
    """Everything in the calling thread and on its connections, so inside its transaction."""

    def run(self, body: Callable[[], T]) -> T:
        return body()

    def run_async(self, body: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async def awaited() -> T:
            return await body()

        return async_to_sync(awaited)()

    def run_branches(self, branches: Sequence[Branch], at_once: int) -> None:
        one_after_another(branches, at_once)


HERE: Final = BodiesHere()


class SlotBodies:
    """Plain bodies in the slot's thread, their branches in threads beside it, async ones on
    the loop."""

    def __init__(self, run: Run, loop: BodyLoop) -> None:
        self._signal = run.signal
        self._interruption = run.interruption
        self._loop = loop

    def run(self, body: Callable[[], T]) -> T:
        return self._interruption.run(body)

    def run_async(self, body: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._loop.run(body, self._signal)

    def run_branches(self, branches: Sequence[Branch], at_once: int) -> None:
        """Run the branches in up to *at_once* threads.

        Raises:
            Aborted: The attempt was cancelled before each of them had begun.
        """
        waiting = deque((copy_context(), branch) for branch in branches)
        faults: list[BaseException] = []
        threads = [
            threading.Thread(
                target=self._serve,
                args=[waiting, faults],
                name=f"{threading.current_thread().name}-branch-{number}",
                daemon=True,
            )
            for number in range(min(at_once, len(waiting)))
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException:
            # Interrupted, or out of threads: none of them may outlive the body all the same.
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
            raise
        if faults:
            raise faults[0]
        if waiting:
            self._signal.check()

    def _serve(self, waiting: deque[tuple[Context, Branch]], faults: list[BaseException]) -> None:
        try:
            while not self._signal.is_set:
                try:
                    context, branch = waiting.popleft()
                except IndexError:
                    return
                context.run(self._run_branch, branch)
        # What a branch raises stands in its outcome; this is all else, raised by the body.
        except BaseException as error:
            faults.append(error)
        finally:
            drop_connections()

    def _run_branch(self, branch: Branch) -> None:
        with fresh_connections():
            self._interruption.run(branch)
