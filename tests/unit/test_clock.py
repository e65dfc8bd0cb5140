"""The clock that tests move, in this process and in those it starts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from django_durable_jobs import clock

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _unmoved() -> Iterator[None]:
    clock.reset()
    yield
    clock.reset()


def test_the_clock_is_not_moved_unless_a_test_moves_it() -> None:
    assert clock.shift() == timedelta(0)
    before = datetime.now(UTC)
    assert before <= clock.now() <= datetime.now(UTC)


def test_moves_add_up_and_are_undone_at_once() -> None:
    clock.move(timedelta(hours=1))
    clock.move(timedelta(minutes=-10))

    assert clock.shift() == timedelta(minutes=50)
    assert timedelta(minutes=49) < clock.now() - datetime.now(UTC) < timedelta(minutes=51)
    clock.reset()
    assert clock.shift() == timedelta(0)


def test_a_time_is_aware_and_in_utc() -> None:
    assert clock.now().tzinfo is UTC


def test_measured_durations_do_not_move() -> None:
    before = clock.monotonic()
    clock.move(timedelta(days=1))

    assert clock.monotonic() - before < 3_600


@pytest.mark.parametrize(
    ("text", "seconds"), [("90.5", 90.5), ("-3", -3), ("", 0), (None, 0)], ids=repr
)
def test_a_started_process_reads_its_shift_from_the_file_it_was_told(
    tmp_path: Path, text: str | None, seconds: float
) -> None:
    shift = tmp_path / "shift"
    if text is not None:
        shift.write_text(text)

    said = subprocess.run(
        [
            sys.executable,
            "-c",
            "from django_durable_jobs import clock\n"
            "from datetime import timedelta\n"
            "clock.move(timedelta(days=7))\n"
            "print(clock.shift().total_seconds())",
        ],
        env={clock.SHIFT_FILE: str(shift), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert float(said.stdout) == seconds
