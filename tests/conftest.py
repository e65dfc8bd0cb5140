from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from django.db.backends.postgresql.operations import DatabaseOperations
from hypothesis import HealthCheck, settings

HERE = Path(__file__).resolve().parent
# Suites that need a program or a patience of their own, by folder.
MARKED_FOLDERS = {"browser": pytest.mark.browser, "benchmarks": pytest.mark.bench}

# `make test` installs no browser driver; `make browser` does, and runs that suite.
collect_ignore = [] if find_spec("selenium") else ["browser"]

# A property that holds must not fail because a shared machine was slow for a moment.
settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("default")


@pytest.fixture(scope="session", autouse=True)
def _empty_tables_by_deleting():
    """Empty the tables of a test with real commits by DELETE.

    Django truncates, which makes every table and index anew: ten times the cost of deleting
    the few rows of a test. Foreign keys are deferred, so any order will do.
    """

    def sql_flush(self, style, tables, *, reset_sequences=False, allow_cascade=False):
        deletes = [f"DELETE FROM {self.quote_name(name)};" for name in tables]  # noqa: S608  quoted
        if reset_sequences:
            tables = [{"table": table} for table in tables]
            return deletes + self.sequence_reset_by_name_sql(style, tables)
        return deletes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DatabaseOperations, "sql_flush", sql_flush)
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            suite = item.path.relative_to(HERE).parts[0]
            if suite in MARKED_FOLDERS:
                item.add_marker(MARKED_FOLDERS[suite])
