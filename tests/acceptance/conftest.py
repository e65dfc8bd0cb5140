from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .app import ledger as _ledger
from .conditions import until
from .process_tree import ProcessTree, kill
from .workers import Workers

StartWorkers = Callable[..., Workers]


@pytest.fixture
def trees(transactional_db: None) -> Iterator[list[ProcessTree]]:
    """The process trees that a test started: when it has ended, no process is left of them."""
    if not Path("/proc/self/environ").exists():
        pytest.skip("The processes are found in /proc, which this system does not have.")
    started: list[ProcessTree] = []

    yield started

    left = [sentence for tree in started if (sentence := _left_behind(tree))]
    assert not left, "Processes were left behind: " + "; ".join(left)


@pytest.fixture
def start_workers(trees: list[ProcessTree], tmp_path: Path) -> StartWorkers:
    """Starts ``runjobs`` with arguments and environment."""

    def start(*arguments: str, **environment: str) -> Workers:
        log = tmp_path / f"runjobs-{len(trees) + 1}.log"
        workers = Workers(log, *arguments, environment=environment)
        trees.append(workers)
        return workers

    return start


@pytest.fixture
def ledger(transactional_db: None) -> Iterator[None]:
    """The table in which the bodies of ``app.jobs`` write down what they do."""
    _ledger.create()
    yield
    _ledger.drop()


def _left_behind(tree: ProcessTree) -> str:
    """Stop *tree*, by force in the end; a sentence if it needed that, else nothing."""
    try:
        tree.stop()
        until(lambda: not tree.alive(), seconds=25)
    except AssertionError as error:
        return f"{tree.alive()} of {tree.log.name}: {error}"
    finally:
        for pid in tree.alive():
            kill(pid)
        # Captured, and shown only with a failure.
        print(f"--- {tree.log.name}\n{tree.said()}")
    return ""
