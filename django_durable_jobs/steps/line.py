"""One line of a body: the body itself, or one of the branches that it runs side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from django_durable_jobs.lifecycle.cancellation import CancelSignal

from .suspension import Suspension

_here: ContextVar[Line | None] = ContextVar("durable_jobs_line", default=None)


class Line:
    """Where the code of one line stands.

    Attributes:
        parent: The line that runs this one as a branch; None for the body.
        signal: That of the timed step that runs, else the attempt's.
        suspended: The suspension that was raised in this line, once one was.
        step: Name of the step under way.
    """

    def __init__(self, signal: CancelSignal, parent: Line | None = None) -> None:
        self.parent = parent
        self.signal = signal
        self.suspended: Suspension | None = None
        self.step: str | None = None

    @property
    def root(self) -> Line:
        """The body's own line."""
        line = self
        while line.parent is not None:
            line = line.parent
        return line


def line_here(body: Line) -> Line:
    """The line of *body* that the caller runs in; *body* itself outside of its branches."""
    line = _here.get()
    # The code of another run called inside this one has lines of its own.
    return line if line is not None and line.root is body else body


@contextmanager
def on_line(line: Line) -> Iterator[None]:
    """Mark what is called inside as the code of *line*."""
    token = _here.set(line)
    try:
        yield
    finally:
        _here.reset(token)
