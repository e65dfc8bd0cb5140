"""Where statements run: on Django's connection, or on connections of the worker's own."""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Final, Protocol
from weakref import WeakSet

import psycopg
from django.db import DatabaseError, InterfaceError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.connection import ConnectionDoesNotExist
from psycopg.pq import TransactionStatus
from psycopg.types.datetime import TimestamptzLoader

from django_durable_jobs.exceptions import SettingInvalid, StoreUnavailable

from .statements import load

logger = logging.getLogger("django_durable_jobs.store")

Row = tuple[Any, ...]

# Errors that say "the connection or the server is gone", not "the statement is wrong".
_GONE: Final = ("08", "57P")
_READ_ONLY: Final = "25006"
# "not now": out of resources (53), of disk or files (58), read-only, cut short, to be repeated.
_NOT_NOW: Final = ("53", "58", _READ_ONLY, "57014", "40001")
# Two that met. Inside a transaction these are the caller's to judge: a key may be contended.
_MET: Final = ("40001", "40P01")
_NOT_NOW_ALONE: Final = (*_NOT_NOW, "40P01", "55P03")
_TRIES: Final = 5
# A server that is cut off is noticed in half a minute, not after the system's two hours.
_PATIENCE: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_UNDEFINED_TABLE: Final = "42P01"


class Executor(Protocol):
    """Runs statements by name."""

    def fetch(self, name: str, parameters: Mapping[str, Any]) -> list[Row]:
        """Run ``sql/{name}.sql`` and answer its rows, if it has any.

        Raises:
            StoreUnavailable: The server could not be reached; whether the statement took
                effect is not known unless it was never sent.
        """
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """A transaction, or a savepoint inside one, of the calling thread."""
        ...

    def on_commit(self, act: Callable[[], object]) -> None:
        """Run *act* after the outermost commit of the calling thread; at once outside one."""
        ...

    def close(self) -> None: ...


class DjangoExecutor:
    """Runs on Django's connection of the calling thread, inside whatever transaction is open."""

    def __init__(self, alias: str) -> None:
        require_postgresql(alias)
        self.alias = alias

    @property
    def connection(self) -> BaseDatabaseWrapper:
        return connections[self.alias]

    def fetch(self, name: str, parameters: Mapping[str, Any]) -> list[Row]:
        try:
            with self.connection.cursor() as cursor:
                # With USE_TZ off, Django reads instants as naive local times, which an hour
                # repeated in autumn makes ambiguous.
                cursor.cursor.adapters.register_loader("timestamptz", TimestamptzLoader)
                cursor.execute(load(name).query, parameters)
                return [] if cursor.description is None else list(cursor.fetchall())
        except DatabaseError as error:
            if (fault := _fault(self.alias, error.__cause__)) is not None:
                raise fault from error
            raise
        except InterfaceError as error:
            raise _unavailable(self.alias, error) from error

    def transaction(self) -> AbstractContextManager[None]:
        try:
            self.connection.ensure_connection()
        except DatabaseError as error:
            if (fault := _fault(self.alias, error.__cause__)) is not None:
                raise fault from error
            raise
        return transaction.atomic(using=self.alias)

    def on_commit(self, act: Callable[[], object]) -> None:
        connection = self.connection
        if not connection.in_atomic_block and not connection.get_autocommit():
            # Committed by hand: Django takes a hook only inside a block, and runs it when
            # autocommit is on again after a commit.
            with transaction.atomic(using=self.alias):
                self.on_commit(act)
            return
        # Wrapped, since Django refuses callables without a __qualname__ when they raise.
        transaction.on_commit(lambda: act(), using=self.alias, robust=True)

    def close(self) -> None:
        """Nothing is its own."""


class PooledExecutor:
    """Runs on autocommit connections of its own, kept between statements; any thread may call.

    A connection is made when none is free, so there are at most as many as threads that
    run a statement at one moment. A broken one is dropped and the next call makes another.

    A statement outside ``transaction()`` is one by itself. When it was only rolled back
    because it met another it is run again, and whatever does not speak against the
    statement is ``StoreUnavailable``: a timeout must not pass for a refused outcome.
    """

    def __init__(self, alias: str) -> None:
        require_postgresql(alias)
        self.alias = alias
        self._free: list[psycopg.Connection[Row]] = []
        self._lock = threading.Lock()
        self._pinned = threading.local()
        self._is_closed = False
        _of_this_process.add(self)

    def fetch(self, name: str, parameters: Mapping[str, Any]) -> list[Row]:
        query = load(name).query
        return self._using(lambda connection: _run(connection, query, parameters))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        outer: list[Callable[[], object]] | None = getattr(self._pinned, "acts", None)
        acts: list[Callable[[], object]] = []
        self._pinned.acts = acts
        try:
            with self._faults(), self._connection() as connection, connection.transaction():
                yield
        finally:
            self._pinned.acts = outer
        if outer is not None:
            # Only a savepoint was released; it depends on the outer transaction yet.
            outer.extend(acts)
            return
        for act in acts:
            _run_logged(act)

    def on_commit(self, act: Callable[[], object]) -> None:
        acts: list[Callable[[], object]] | None = getattr(self._pinned, "acts", None)
        if acts is None:
            _run_logged(act)
        else:
            acts.append(act)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            free, self._free = self._free, []
        for connection in free:
            connection.close()

    def _using(self, act: Callable[[psycopg.Connection[Row]], list[Row]]) -> list[Row]:
        if getattr(self._pinned, "connection", None) is not None:
            with self._faults(), self._connection() as connection:
                return act(connection)
        with self._faults(_NOT_NOW_ALONE):
            return self._alone(act)

    def _alone(self, act: Callable[[psycopg.Connection[Row]], list[Row]]) -> list[Row]:
        """Run one statement that is a transaction by itself, again where it met another."""
        for _ in range(_TRIES - 1):
            try:
                with self._connection() as connection:
                    return act(connection)
            except psycopg.OperationalError as error:
                if error.sqlstate not in _MET:
                    raise
        with self._connection() as connection:
            return act(connection)

    @contextmanager
    def _faults(self, not_now: tuple[str, ...] = _NOT_NOW) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            fault = _fault(self.alias, error)
            if fault is None and (error.sqlstate or "").startswith(not_now):
                # A worker asks again; what is wrong is not the statement.
                fault = _unavailable(self.alias, error, "cannot be used now")
            if fault is not None:
                raise fault from error
            raise

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Row]]:
        """Lend a connection to the calling thread; nested calls get the same one."""
        pinned: psycopg.Connection[Row] | None = getattr(self._pinned, "connection", None)
        if pinned is not None:
            yield pinned
            return
        connection = self._take_free() or connect(self.alias)
        self._pinned.connection = connection
        try:
            yield connection
        except BaseException as error:
            # Also after an interrupt in mid-statement, whose answer is still on the wire, and
            # on a server that became a standby: another connection may find its successor.
            if (
                connection.closed
                or connection.pgconn.transaction_status != TransactionStatus.IDLE
                or getattr(error, "sqlstate", None) == _READ_ONLY
            ):
                with suppress(psycopg.Error):
                    connection.close()
            raise
        finally:
            # An interrupted thread may leave this to the collector, on any other thread.
            if getattr(self._pinned, "connection", None) is connection:
                self._pinned.connection = None
            if not connection.closed:
                self._give_back(connection)

    def _take_free(self) -> psycopg.Connection[Row] | None:
        """A connection kept from earlier that has not been hung up on, if there is one."""
        while True:
            with self._lock:
                if not self._free:
                    return None
                connection = self._free.pop()
            if _is_quiet(connection):
                return connection
            with suppress(psycopg.Error):
                connection.close()

    def forget_parent(self) -> None:
        """Leave the connections to the process that this one was forked from."""
        # Kept, not closed: closing would end the parent's sessions.
        self._inherited = self._free, self._pinned
        self._free = []
        self._pinned = threading.local()
        # Another thread of the parent may have held it.
        self._lock = threading.Lock()

    def _give_back(self, connection: psycopg.Connection[Row]) -> None:
        with self._lock:
            if not self._is_closed:
                self._free.append(connection)
                return
        connection.close()


_of_this_process: WeakSet[PooledExecutor] = WeakSet()


def _forget_parent() -> None:
    for executor in list(_of_this_process):
        executor.forget_parent()


# A job or a command may use multiprocessing, and two processes on one socket read each other's
# answers.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)


def require_postgresql(alias: str) -> None:
    """Refuse an alias on which no statement of ours could run.

    Raises:
        SettingInvalid: It is not in ``DATABASES``, or not PostgreSQL.
    """
    try:
        vendor = connections[alias].vendor
    except ConnectionDoesNotExist as error:
        raise SettingInvalid(
            "DATABASE",
            f"names '{alias}', which is not in DATABASES.",
            "Add it there, or name another alias.",
        ) from error
    if vendor != "postgresql":
        raise SettingInvalid(
            "DATABASE",
            f"names '{alias}', which is {vendor}; durable jobs need PostgreSQL.",
            "Name a PostgreSQL alias of DATABASES.",
        )


def connect(alias: str) -> psycopg.Connection[Row]:
    """Open an autocommit connection with the settings of *alias*, apart from Django's own.

    Raises:
        StoreUnavailable: The server could not be reached.
    """
    wrapper = connections[alias]
    parameters = wrapper.get_connection_params()
    # Django's own adapters and cursors follow USE_TZ; the port speaks aware datetimes only.
    for key in ("context", "cursor_factory", "server_side_binding", "pool"):
        parameters.pop(key, None)
    role = parameters.pop("assume_role", None) or wrapper.settings_dict["OPTIONS"].get(
        "assume_role"
    )
    parameters.setdefault("application_name", "durable-jobs")
    for key, value in _PATIENCE.items():
        parameters.setdefault(key, value)
    try:
        connection: psycopg.Connection[Row] = psycopg.Connection.connect(
            **parameters, autocommit=True, cursor_factory=psycopg.ClientCursor
        )
        if role:
            connection.execute(psycopg.sql.SQL("set role {}").format(psycopg.sql.Identifier(role)))
    except psycopg.OperationalError as error:
        raise _unavailable(alias, error) from error
    return connection


def sqlstate_of(error: BaseException) -> str:
    """PostgreSQL's code of what *error* is, or was raised from; "" if it has none."""
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    return getattr(cause, "sqlstate", None) or ""


def _run_logged(act: Callable[[], object]) -> None:
    try:
        act()
    except Exception:
        logger.exception("jobs.on_commit.failed")


def _run(
    connection: psycopg.Connection[Row], query: str, parameters: Mapping[str, Any]
) -> list[Row]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return [] if cursor.description is None else cursor.fetchall()


def _fault(alias: str, error: BaseException | None) -> StoreUnavailable | None:
    """The port's own error where *error* says that the store cannot be used; else None."""
    state = getattr(error, "sqlstate", None)
    if isinstance(error, psycopg.InterfaceError) or (
        isinstance(error, psycopg.OperationalError) and (state is None or state.startswith(_GONE))
    ):
        return _unavailable(alias, error)
    if state == _UNDEFINED_TABLE:
        return StoreUnavailable(
            f"The jobs database '{alias}' lacks the tables of durable jobs.",
            "Add 'django_durable_jobs' to INSTALLED_APPS and run 'manage.py migrate' there.",
        )
    return None


def _is_quiet(connection: psycopg.Connection[Row]) -> bool:
    """Whether a connection in nobody's use has nothing to say: its last word is that it ends."""
    if connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


def _unavailable(
    alias: str, error: BaseException, how: str = "cannot be reached"
) -> StoreUnavailable:
    reason = " ".join(str(error).split()) or type(error).__name__
    return StoreUnavailable(
        f"The jobs database '{alias}' {how}: {reason}.",
        "Check that the server runs and that DATABASES names it rightly.",
    )
