"""`make demo` keeps what it says."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from example_project.orders.models import Order

from .conditions import until
from .process_tree import ProcessTree

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]


def start_demo(trees: list[ProcessTree], folder: Path, *, once: str) -> ProcessTree:
    command = [sys.executable, "-m", "example_project.demo"]
    trees.append(ProcessTree(folder / "demo.log", command, {"ONCE": once}))
    return trees[-1]


def test_the_demo_ends_by_itself_with_the_promised_line(trees, tmp_path):
    demo = start_demo(trees, tmp_path, once="1")

    assert demo.exit_status(seconds=300) == 0, demo.said()

    assert demo.said().splitlines()[-1] == (
        "settled 20 of 20 orders, each charged once, worker killed 1 time"
    )
    assert not demo.alive()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_the_demo_stops_in_the_middle_and_leaves_no_process(trees, tmp_path, stop):
    demo = start_demo(trees, tmp_path, once="")
    until(lambda: demo.has_ended or Order.objects.count() >= 5, seconds=90, otherwise=demo.said)
    assert len(demo.alive()) >= 4, demo.said()

    demo.signal(stop)

    assert demo.exit_status(seconds=20) == 0, demo.said()
    assert not demo.alive()
    assert "Traceback" not in demo.said()


def test_a_demo_whose_database_is_away_says_so_in_a_sentence(trees, tmp_path):
    command = [sys.executable, "-m", "example_project.demo"]
    away = {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nothing", "ONCE": "1"}
    demo = ProcessTree(tmp_path / "demo.log", command, away)
    trees.append(demo)

    assert demo.exit_status(seconds=60) == 1
    assert "The database could not be prepared: " in demo.said()
    assert "Traceback" not in demo.said()
