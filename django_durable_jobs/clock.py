"""The one way to ask the time.

The database's clock decides leases, due times and events. Statements take it as
``statement_timestamp()`` plus ``shift()``, which is zero in production and is how
tests move time. Processes measure only durations, with ``monotonic()``.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

SHIFT_FILE: Final = "DURABLE_JOBS_CLOCK_SHIFT_FILE"
"""Environment variable: a file whose text is the shift in seconds, read at each ask.

Set only by tests, so that processes they start move with them.
"""

monotonic = time.monotonic

_NO_SHIFT: Final = timedelta(0)
_shift = _NO_SHIFT


def shift() -> timedelta:
    """How far this process sees the database's clock moved; zero in production."""
    if _SHIFT_PATH is None:
        return _shift
    try:
        return timedelta(seconds=float(_SHIFT_PATH.read_text() or 0))
    except FileNotFoundError:
        return _NO_SHIFT


def move(by: timedelta) -> None:
    """Move the clock of this process forward (or back) for a test."""
    global _shift
    _shift += by


def reset() -> None:
    """Undo every ``move``."""
    global _shift
    _shift = _NO_SHIFT


def now() -> datetime:
    """This process's clock, aware and in UTC, moved like the database's.

    For what no other process compares: ids, log lines, the memory driver.
    """
    return datetime.now(UTC) + shift()


_SHIFT_PATH: Final = Path(os.environ[SHIFT_FILE]) if SHIFT_FILE in os.environ else None
