from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            suite = item.path.relative_to(HERE).parts[0]
            if suite in MARKED_FOLDERS:
                item.add_marker(MARKED_FOLDERS[suite])
