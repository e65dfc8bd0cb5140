"""Django's database connections around each body, as around each request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import close_old_connections, connections, reset_queries
from django.db.backends.base.base import BaseDatabaseWrapper


@contextmanager
def fresh_connections() -> Iterator[None]:
    """Give a body usable connections, and leave nothing of it behind for the next.

    Connections past ``CONN_MAX_AGE`` or found broken are closed on both sides of the
    body; one that a body left inside a transaction is closed, which rolls it back. One kept
    from an earlier body is asked whether it still works, also without
    ``CONN_HEALTH_CHECKS``: a slot may have been idle for hours, and a server or firewall
    tells nobody that it hung up.
    """
    reset_queries()
    close_old_connections()
    for connection in connections.all(initialized_only=True):
        # With health checks on, Django asks at the first statement.
        if (
            connection.connection is not None
            and not connection.settings_dict["CONN_HEALTH_CHECKS"]
            and not connection.is_usable()
        ):
            connection.close()
    try:
        yield
    finally:
        for connection in connections.all(initialized_only=True):
            if connection.in_atomic_block or not connection.autocommit:
                _drop(connection)
        close_old_connections()


def drop_connections() -> None:
    """Close every connection of this thread; what they had not committed is rolled back."""
    for connection in connections.all(initialized_only=True):
        _drop(connection)


def _drop(connection: BaseDatabaseWrapper) -> None:
    if connection.connection is None:
        return
    # Inside a block close() only marks; nobody will leave that block any more.
    connection.in_atomic_block = False
    connection.savepoint_ids.clear()
    connection.atomic_blocks.clear()
    connection.needs_rollback = False
    connection.run_on_commit.clear()
    # Else one that was closed inside its block is never opened again.
    connection.closed_in_transaction = False
    connection.close()
