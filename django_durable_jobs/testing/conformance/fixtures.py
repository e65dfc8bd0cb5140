"""The suite's own fixture; ``store`` is the driver author's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_durable_jobs import clock as moved_clock

from .given import Clock


@pytest.fixture
def clock() -> Iterator[Clock]:
    """Move the store's time with ``clock.advance(seconds=31)``; put back after the test."""
    moved_clock.reset()
    yield Clock()
    moved_clock.reset()
