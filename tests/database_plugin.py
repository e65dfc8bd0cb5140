"""Gives a test run its PostgreSQL: that of DATABASE_URL, else an embedded one.

A plugin and no conftest: pytest-django reads the settings before any conftest is loaded, and the
settings need an address. Workers of pytest-xdist inherit the controller's DATABASE_URL, so the
controller alone starts a server.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from example_project import postgres

KEPT = Path(__file__).resolve().parent.parent / ".postgres" / "tests"


# A wrapper runs before every plain hook, pytest-django's "tryfirst" one included.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(args: list[str]) -> Iterator[None]:
    # A database can only be used again where its server's data outlives the run.
    folder = KEPT if "--reuse-db" in args else None
    try:
        os.environ["DATABASE_URL"] = postgres.start(folder, durable=False)
    except postgres.ServerNotStarted as error:
        raise pytest.UsageError(str(error)) from error
    return (yield)


def pytest_unconfigure() -> None:
    postgres.stop()
