"""The claim loop: it neither spins, nor sleeps while there is work and room for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from django_durable_jobs.drivers.memory import MemoryStore
from django_durable_jobs.exceptions import StoreUnavailable
from django_durable_jobs.lifecycle.cancellation import CancelSignal
from django_durable_jobs.store.rows import BuriedJob, ClaimedJob, QueueDemand, Rescued
from django_durable_jobs.testing.conformance import given
from django_durable_jobs.worker.claiming import Claimer
from django_durable_jobs.worker.crew import Crew, Run
from tests.acceptance.conditions import until

PATIENCE = 20
LEASE = timedelta(minutes=1)


class Watched(MemoryStore):
    """Counts the claim's statements, and lets a test step in behind one."""

    def __init__(self) -> None:
        super().__init__()
        self.claims = 0
        self.rescues: list[tuple[list[str], int]] = []
        self.behind_claim: Callable[[], None] = lambda: None
        self.at_most = 10_000

    def claim(
        self,
        worker_id: str,
        demands: Sequence[QueueDemand],
        *,
        lease: timedelta,
        limit: int | None = None,
    ) -> list[ClaimedJob]:
        self.claims += 1
        limit = self.at_most if limit is None else min(limit, self.at_most)
        claimed = super().claim(worker_id, demands, lease=lease, limit=limit)
        self.behind_claim()
        return claimed

    def rescue(self, worker_id: str, queues: Any, **options: Any) -> Rescued:
        self.rescues.append((list(queues), options["limit"]))
        return super().rescue(worker_id, queues, **options)


class Bench:
    """A claimer with a crew, whose bodies a test ends one by one."""

    def __init__(self, store: Watched, slots: int, queues: dict[str, dict[str, Any]]) -> None:
        self.store = store
        self.backlog = 0
        self.most = 0
        self.drained = threading.Event()
        self.announced: list[BuriedJob] = []
        self._lock = threading.Lock()
        self._running: dict[str, list[threading.Event]] = {}
        self.crew = Crew(slots, work=self._work, announce=self.announced.append, freed=self._freed)
        self.claimer = Claimer(
            store,
            self.crew,
            worker_id="worker-1",
            queues=queues,
            lease=LEASE,
            drop_exhausted=list,
            take=self._take,
            backlog=lambda: self.backlog,
            drained=self.drained.set,
        )
        self.goes_through = False
        self.freed = 0

    def start(self) -> Bench:
        self.crew.start()
        self.claimer.start()
        return self

    def running(self, queue: str = "default") -> int:
        with self._lock:
            return len(self._running.get(queue, []))

    def await_running(self, count: int, queue: str = "default") -> None:
        until(lambda: self.running(queue) == count, seconds=PATIENCE, every=0.001)

    def end_one(self, queue: str = "default") -> None:
        with self._lock:
            event = self._running[queue].pop()
        event.set()

    def close(self) -> None:
        self.goes_through = True
        for queue in list(self._running):
            while self.running(queue):
                self.end_one(queue)
        assert self.claimer.stop(PATIENCE)

    def _take(self, claimed: Sequence[ClaimedJob]) -> None:
        self.crew.hand_out(Run(job, CancelSignal(job.identity.job_id)) for job in claimed)

    def _work(self, run: Run) -> None:
        end = threading.Event()
        queue = run.claimed.queue
        with self._lock:
            if not self.goes_through:
                self._running.setdefault(queue, []).append(end)
                self.most = max(self.most, sum(map(len, self._running.values())))
        if not self.goes_through:
            assert end.wait(PATIENCE)

    def _freed(self) -> None:
        self.claimer.slot_freed()
        self.freed += 1


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def benches(watched) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(slots: int, **queues: dict[str, Any]) -> Bench:
        made.append(Bench(watched, slots, queues or {"default": {}}))
        return made[-1]

    yield make
    for bench in made:
        bench.close()


def test_a_claimer_with_nothing_to_do_asks_once(benches, watched):
    bench = benches(4).start()

    assert bench.drained.wait(PATIENCE)
    assert watched.claims == 1


def test_a_wake_during_a_claim_brings_another(benches, watched):
    """The statement may have looked before the job was committed."""

    def enqueue_behind_it() -> None:
        watched.behind_claim = lambda: None
        given.enqueue(watched)
        bench.claimer.wake()

    watched.behind_claim = enqueue_behind_it
    bench = benches(4).start()

    bench.await_running(1)


def test_a_full_crew_asks_for_nothing_until_a_slot_is_free(benches, watched):
    for _ in range(6):
        given.enqueue(watched)
    bench = benches(2).start()
    bench.await_running(2)
    asked = watched.claims

    for _ in range(50):
        bench.claimer.wake()
    bench.end_one()
    bench.await_running(2)

    # The pass after the freed slot; the wakes before it cost no statement.
    assert watched.claims == asked + 1
    assert bench.most == 2


def test_a_slot_of_a_full_queue_that_is_freed_during_a_claim_is_filled(benches, watched):
    """The claim left that queue out; nothing else would bring the next one."""
    for _ in range(2):
        given.enqueue(watched, queue="slow")
    bench = benches(4, slow={"slots": 1}, fast={}).start()
    bench.await_running(1, "slow")

    def free_the_slot() -> None:
        watched.behind_claim = lambda: None
        bench.end_one("slow")
        until(lambda: bench.freed == 1, seconds=PATIENCE, every=0.001)

    watched.behind_claim = free_the_slot
    bench.claimer.wake()

    until(lambda: bench.freed == 1, seconds=PATIENCE, every=0.001)
    bench.await_running(1, "slow")


def test_a_queue_keeps_to_its_slots_through_a_burst_of_wakes(benches, watched):
    for _ in range(12):
        given.enqueue(watched, queue="slow")
    bench = benches(8, slow={"slots": 2}, fast={}).start()

    for left in range(12, 0, -1):
        bench.await_running(min(left, 2), "slow")
        bench.claimer.wake()
        bench.end_one("slow")
    until(lambda: bench.crew.is_idle, seconds=PATIENCE)
    assert bench.most == 2


def test_a_queue_with_slots_of_its_own_can_run_dry(benches, watched):
    """Else a burst would never end."""
    given.enqueue(watched, queue="slow")
    bench = benches(8, slow={"slots": 2}).start()
    bench.await_running(1, "slow")

    until(lambda: bench.claimer.is_drained, seconds=PATIENCE)


def test_a_rescue_keeps_to_the_slots_of_a_queue(benches, watched):
    lapsed(watched, 5, queue="slow")
    lapsed(watched, 2, queue="fast")
    bench = benches(8, slow={"slots": 2}, fast={}).start()

    bench.await_running(2, "fast")
    for left in range(5, 0, -1):
        bench.await_running(min(left, 2), "slow")
        bench.end_one("slow")
    assert all(limit <= 2 for queues, limit in watched.rescues if queues == ["slow"])


def test_jobs_to_bury_beyond_the_slots_are_all_buried(benches, watched):
    """Announcements hold no claim, so no freed claim would bring the next pass."""
    lapsed(watched, 7, max_attempts=1)
    bench = benches(2).start()

    until(lambda: len(bench.announced) == 7, seconds=PATIENCE)
    assert len({job.id for job in bench.announced}) == 7


def test_a_claim_that_stopped_short_at_many_lanes_is_followed_by_another(benches, watched):
    for _ in range(100):
        given.enqueue(watched)
    watched.at_most = 40
    bench = benches(100).start()

    bench.await_running(100)


def test_a_backlog_of_outcomes_stops_the_claims_until_it_is_worked_off(benches, watched):
    given.enqueue(watched)
    bench = benches(2)
    bench.backlog = 2_001
    bench.start()
    bench.claimer.wake()
    assert watched.claims == 0

    bench.backlog = 2_000
    bench.claimer.slot_freed()
    bench.await_running(1)


def test_a_store_that_is_away_is_asked_with_pauses_and_then_served(benches, watched, caplog):
    def away() -> None:
        if watched.claims < 3:
            raise StoreUnavailable("The server is down.")

    watched.behind_claim = away
    bench = benches(2).start()
    until(lambda: watched.claims >= 3, seconds=PATIENCE)
    given.enqueue(watched)
    bench.claimer.wake()

    bench.await_running(1)
    assert [record.message[:18] for record in caplog.records] == ["jobs.claim.waiting"]


def lapsed(store: MemoryStore, count: int, *, queue: str = "default", **options: Any) -> None:
    """Running jobs of a worker that is dead."""
    for _ in range(count):
        identity = given.claimed(store, queue=queue, worker="dead", **options)
        store.lapse([identity])
