from __future__ import annotations

from datetime import timedelta

from django_durable_jobs import states
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.rows import QueueDemand, Rescued

from .given import LEASE, Clock, claim, claimed, enqueue, insert, new_job, settle


class TestPauses:
    def test_a_paused_queue_answers_nothing_and_others_go_on(self, store: JobStore) -> None:
        insert(store, new_job(), new_job(queue="mail"))

        store.pause_queue("default", by="ann", reason="the gateway is away")

        jobs = store.claim(
            "worker-1", [QueueDemand("default", 5), QueueDemand("mail", 5)], lease=LEASE
        )
        assert [job.queue for job in jobs] == ["mail"]

    def test_a_resumed_queue_answers_again(self, store: JobStore) -> None:
        job_id = enqueue(store)
        store.pause_queue("default", by="ann", reason="")
        assert claim(store) == []

        store.resume_queue("default")

        assert [job.identity.job_id for job in claim(store)] == [job_id]

    def test_a_queue_paused_twice_is_resumed_once(self, store: JobStore) -> None:
        enqueue(store)
        store.pause_queue("default", by="ann", reason="first")
        store.pause_queue("default", by="bob", reason="second")

        store.resume_queue("default")
        store.resume_queue("default")

        assert len(claim(store)) == 1

    def test_a_pause_may_come_before_the_queues_first_job(self, store: JobStore) -> None:
        store.pause_queue("default", by="ann", reason="")
        enqueue(store)

        assert claim(store) == []

    def test_what_runs_in_a_paused_queue_may_end(self, store: JobStore, clock: Clock) -> None:
        identity = claimed(store)
        store.pause_queue("default", by="ann", reason="")
        clock.advance(seconds=40)

        assert store.renew([identity], lease=LEASE, beats=()).held == {identity}
        assert settle(store, identity, states.DONE)

    def test_a_paused_queue_is_not_rescued_until_it_is_resumed(
        self, store: JobStore, clock: Clock
    ) -> None:
        identity = claimed(store)
        store.pause_queue("default", by="ann", reason="")
        clock.advance(seconds=61)

        def rescue() -> Rescued:
            return store.rescue("worker-2", ["default"], limit=9, lease=LEASE, drop_exhausted=())

        assert rescue() == Rescued((), ())
        store.resume_queue("default")
        assert [job.identity.job_id for job in rescue().claimed] == [identity.job_id]

    def test_a_paused_queue_is_not_announced_by_a_probe(self, store: JobStore) -> None:
        insert(store, new_job(), new_job(queue="mail"))
        store.pause_queue("default", by="ann", reason="")

        assert store.probe(["default", "mail"]).queues == {"mail"}

    def test_jobs_may_be_enqueued_and_moved_while_their_queue_is_paused(
        self, store: JobStore
    ) -> None:
        store.pause_queue("default", by="ann", reason="")
        ready, later = enqueue(store), enqueue(store, delay=timedelta(hours=1))

        store.promote(later)
        store.cancel(ready, reason="by hand")
        store.resume_queue("default")

        assert [job.identity.job_id for job in claim(store)] == [later]
