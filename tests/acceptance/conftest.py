from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .app import ledger as _ledger
from .conditions import until
from .workers import Workers, kill

# Short, so that a test sees leases lapse; long enough for a busy machine to renew them.
ENVIRONMENT = {
    "JOBS_LEASE": "3s",
    "JOBS_GRACE": "20s",
    "SHOP_GATEWAY_SECONDS": "0.1",
    "SHOP_GATEWAY_FAILS_EVERY": "7",
    "SHOP_PACKING_TIME": "200ms",
}

StartWorkers = Callable[..., Workers]


@pytest.fixture
def start_workers(transactional_db: None, tmp_path: Path) -> Iterator[StartWorkers]:
    """Starts ``runjobs`` with arguments and environment; after the test no process is left."""
    if not Path("/proc/self/environ").exists():
        pytest.skip("The processes are found in /proc, which this system does not have.")
    started: list[Workers] = []

    def start(*arguments: str, **environment: str) -> Workers:
        log = tmp_path / f"runjobs-{len(started) + 1}.log"
        workers = Workers(log, *arguments, environment={**ENVIRONMENT, **environment})
        started.append(workers)
        return workers

    yield start

    left: list[str] = []
    for workers in started:
        try:
            workers.stop()
            until(lambda tree=workers: not tree.alive(), seconds=25)  # type: ignore[misc] # bound now
        except AssertionError as error:
            left.append(f"{workers.alive()} of {workers.log.name}: {error}")
        finally:
            for pid in workers.alive():
                kill(pid)
            # Captured, and shown only with a failure.
            print(f"--- {workers.log.name}\n{workers.said()}")
    assert not left, "Processes were left behind: " + "; ".join(left)


@pytest.fixture
def ledger(transactional_db: None) -> Iterator[None]:
    """The table in which the bodies of ``app.jobs`` write down what they do."""
    _ledger.create()
    yield
    _ledger.drop()
