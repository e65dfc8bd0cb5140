"""Stands between psycopg and the server: counts statements, and breaks one of them.

Django's connections and the worker's own are psycopg connections alike, and each of their
statements passes ``psycopg.Connection.wait``. So nothing of the product, and nothing of a
project's settings, has to know of the explorer.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Literal

import psycopg
from psycopg.pq import TransactionStatus

WireFault = Literal["drop", "lost-answer", "error"]

WIRE_FAULTS: Final[tuple[WireFault, ...]] = ("drop", "lost-answer", "error")
"""What the wire can do to a statement.

``drop``: the connection ends before the statement is sent. ``lost-answer``: it ends when
the statement has taken effect and before its answer. ``error``: the server answers an
error though the statement took effect.
"""

_NAMED: Final = re.compile(r"/\* (\w+) \*/")
_WHITE: Final = re.compile(r"\s+")
_NAME_LENGTH: Final = 60

_unwatched: ContextVar[bool] = ContextVar("durable_jobs_explorer_unwatched", default=False)
_send_all: Final = psycopg.Connection.wait


@dataclass(frozen=True, slots=True)
class Boundary:
    """The place in front of one statement.

    Attributes:
        number: Which one, from 1.
        statement: The name of a statement of the product, else the beginning of its text.
    """

    number: int
    statement: str

    def __str__(self) -> str:
        return f"{self.number} ({self.statement})"


class Wire:
    """Numbers the statements that pass while it is ``tapped``, and acts at one of them.

    Args:
        at: Number of the boundary to act at; None only counts.
        before: Called there, before the statement is sent.
        fault: What then becomes of the statement.
        gone: Waits until the server has ended the session of a process id, so that what
            the session held is free when this goes on.

    Attributes:
        passed: Every boundary so far, in order.
        hit: Where it acted.
        trouble: What *before* raised.
    """

    def __init__(
        self,
        at: int | None = None,
        *,
        before: Callable[[Boundary], object] | None = None,
        fault: WireFault | None = None,
        gone: Callable[[int], object] = lambda pid: None,
    ) -> None:
        self._at = at
        self._before = before
        self._fault = fault
        self._gone = gone
        self._lock = threading.Lock()
        self._pauses: dict[str, Callable[[], object]] = {}
        self.trouble: Exception | None = None
        self.passed: list[Boundary] = []
        self.hit: Boundary | None = None

    @contextmanager
    def tapped(self) -> Iterator[Wire]:
        """Watch every psycopg connection of this process while the block runs."""

        def wait(connection: psycopg.Connection[Any], gen: Any, *args: Any, **kwargs: Any) -> Any:
            def send() -> Any:
                return _send_all(connection, gen, *args, **kwargs)

            statement = None if _unwatched.get() else _statement(connection, gen)
            return send() if statement is None else self._pass(connection, statement, send)

        psycopg.Connection.wait = wait  # type: ignore[method-assign, assignment]  # the tap itself
        try:
            yield self
        finally:
            psycopg.Connection.wait = _send_all  # type: ignore[method-assign]  # as it was

    def pause_after(self, statement: str, act: Callable[[], object]) -> None:
        """Call *act* in the thread that sends the next statement of that name, after it."""
        self._pauses[statement] = act

    def pause_no_more(self) -> None:
        """Nobody is to be paused: whoever it was meant for has ended without that statement."""
        self._pauses.clear()

    def _pass(
        self, connection: psycopg.Connection[Any], statement: str, send: Callable[[], Any]
    ) -> Any:
        with self._lock:
            boundary = Boundary(len(self.passed) + 1, statement)
            self.passed.append(boundary)
        if boundary.number != self._at:
            answer = send()
            pause = self._pauses.pop(statement, None)
            if pause is not None:
                pause()
            return answer
        self.hit = boundary
        if self._before is not None:
            try:
                self._before(boundary)
            except Exception as error:
                # Not the product's to handle: whoever plays the run asks for it.
                self.trouble = error
        if self._fault is None:
            return send()
        return self._break(connection, self._fault, send)

    def _break(
        self, connection: psycopg.Connection[Any], fault: WireFault, send: Callable[[], Any]
    ) -> Any:
        if fault == "drop":
            self._hang_up(connection)
            # libpq finds the end of the session by itself and raises what it always does.
            return send()
        with suppress(psycopg.Error):
            send()
        if fault == "error":
            if connection.pgconn.transaction_status == TransactionStatus.INTRANS:
                # As the server would: after an error the transaction takes no statement.
                connection.pgconn.exec_(b"select 1 / 0")
            raise psycopg.errors.TransactionResolutionUnknown("the explorer answers an error")
        self._hang_up(connection)
        # So that libpq knows of it.
        connection.pgconn.exec_(b"select 1")
        raise psycopg.OperationalError("the explorer dropped the connection before the answer")

    def _hang_up(self, connection: psycopg.Connection[Any]) -> None:
        pid = connection.pgconn.backend_pid
        with socket.socket(fileno=os.dup(connection.pgconn.socket)) as end, suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        self._gone(pid)


@contextmanager
def unwatched() -> Iterator[None]:
    """Let the statements of the block pass uncounted: they are the explorer's own."""
    token = _unwatched.set(True)
    try:
        yield
    finally:
        _unwatched.reset(token)


def _statement(connection: psycopg.Connection[Any], gen: Any) -> str | None:
    """What a generator of psycopg's is about to send; None when that is no statement."""
    code = getattr(gen, "gi_code", None)
    if code is None:
        return None
    known = gen.gi_frame.f_locals if gen.gi_frame is not None else {}
    is_open = connection.pgconn.transaction_status != TransactionStatus.IDLE
    match code.co_name:
        case "_execute_gen" | "_executemany_gen_no_pipeline" | "_executemany_gen_pipeline":
            return _name(connection, known["query"])
        case "_stream_send_gen":
            return _name(connection, known["query"])
        case "_start_copy_gen":
            return _name(connection, known["statement"])
        case "_declare_gen":
            return _name(connection, known["query"])
        # Of Connection and of Transaction; with nothing open they send nothing.
        case "_commit_gen":
            return "COMMIT" if is_open else None
        case "_rollback_gen":
            return "ROLLBACK" if is_open else None
        case "_enter_gen" if isinstance(known.get("self"), psycopg.Transaction):
            return "SAVEPOINT" if is_open else "BEGIN"
        case "_exit_gen" if isinstance(known.get("self"), psycopg.Transaction):
            return _end_of(known["self"], is_failed=known["exc_val"] is not None)
    return None


def _end_of(transaction: psycopg.Transaction, *, is_failed: bool) -> str:
    if transaction.savepoint_name:
        return "ROLLBACK TO" if is_failed else "RELEASE"
    return "ROLLBACK" if is_failed or transaction.force_rollback else "COMMIT"


def _name(connection: psycopg.Connection[Any], query: Any) -> str:
    if isinstance(query, bytes):
        text = query.decode(errors="replace")
    elif isinstance(query, str):
        text = query
    else:
        text = query.as_string(connection)
    named = _NAMED.match(text)
    if named is not None:
        return named[1]
    return _WHITE.sub(" ", text).strip()[:_NAME_LENGTH]
