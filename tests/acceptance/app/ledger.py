"""What bodies did, written through a connection of their own to a table the product knows not."""

from __future__ import annotations

import os
from contextlib import closing
from typing import Any

from django.db import connection


def create() -> None:
    _execute(
        "CREATE TABLE IF NOT EXISTS acceptance_ledger ("
        "id bigserial PRIMARY KEY, entry text NOT NULL, pid int NOT NULL,"
        " at timestamptz NOT NULL DEFAULT clock_timestamp())"
    )


def drop() -> None:
    _execute("DROP TABLE IF EXISTS acceptance_ledger")


def write(entry: str) -> None:
    _execute("INSERT INTO acceptance_ledger (entry, pid) VALUES (%s, %s)", entry, os.getpid())


def entries() -> list[str]:
    return [entry for entry, _ in rows()]


def rows() -> list[tuple[str, int]]:
    """Entries in the order they were written, each with its writer's process id."""
    return _execute("SELECT entry, pid FROM acceptance_ledger ORDER BY id", answers=True)


def _execute(statement: str, *values: Any, answers: bool = False) -> list[Any]:
    with closing(connection.copy()) as own, own.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if answers else []
