from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest
from django.test import override_settings

from django_durable_jobs import states
from django_durable_jobs.exceptions import JobDuplicate, KeyContended
from django_durable_jobs.store import JobStore

from .given import at_once, enqueue, every_job, insert, new_job, shown


class TestTransactions:
    def test_an_act_outside_a_transaction_runs_at_once(self, store: JobStore) -> None:
        acts: list[str] = []

        store.on_commit(lambda: acts.append("ran"))

        assert acts == ["ran"]

    def test_an_act_runs_after_the_outermost_commit(self, store: JobStore) -> None:
        acts: list[str] = []

        with store.atomic():
            with store.atomic():
                store.on_commit(lambda: acts.append("ran"))
            assert acts == []

        assert acts == ["ran"]

    def test_an_act_never_runs_after_a_rollback(self, store: JobStore) -> None:
        acts: list[str] = []

        with pytest.raises(RuntimeError), store.atomic():
            store.on_commit(lambda: acts.append("outer"))
            raise RuntimeError
        with store.atomic():
            with suppress(RuntimeError), store.atomic():
                store.on_commit(lambda: acts.append("inner"))
                raise RuntimeError
            store.on_commit(lambda: acts.append("kept"))

        assert acts == ["kept"]

    def test_an_error_of_an_act_does_not_reach_the_caller(self, store: JobStore) -> None:
        acts: list[str] = []

        def fail() -> None:
            raise RuntimeError("The announcement failed.")

        store.on_commit(fail)
        with store.atomic():
            store.on_commit(fail)
            store.on_commit(lambda: acts.append("next"))

        assert acts == ["next"]

    def test_a_workers_transaction_runs_its_acts_after_its_commit(self, store: JobStore) -> None:
        acts: list[str] = []

        with closing(store.for_worker()) as own:
            with own.atomic():
                own.on_commit(lambda: acts.append("ran"))
                assert acts == []
            assert acts == ["ran"]

    def test_a_store_knows_whether_it_is_in_the_users_transaction(self, store: JobStore) -> None:
        assert not store.in_atomic_block()
        with store.atomic():
            assert store.in_atomic_block()
        assert not store.in_atomic_block()

    def test_a_job_of_a_rolled_back_transaction_is_not_there(self, store: JobStore) -> None:
        if not store.features.transactional:
            pytest.skip("This driver joins no transaction.")

        with pytest.raises(RuntimeError), store.atomic():
            enqueue(store)
            raise RuntimeError
        with store.atomic():
            with suppress(RuntimeError), store.atomic():
                enqueue(store)
                raise RuntimeError
            kept = enqueue(store)

        assert [row.id for row in every_job(store)] == [kept]

    def test_a_job_of_an_open_transaction_is_seen_by_nobody_else(self, store: JobStore) -> None:
        if not store.features.transactional:
            pytest.skip("This driver joins no transaction.")

        with store.atomic():
            job_id = enqueue(store)
            seen = at_once(store, 1, lambda shared, _: shared.show(job_id))

        assert seen == [None]
        assert shown(store, job_id).state == states.READY

    def test_a_key_held_by_an_open_transaction_is_refused_in_time(self, store: JobStore) -> None:
        """A web request must not wait for a stranger's long transaction."""
        if not store.features.transactional:
            pytest.skip("This driver joins no transaction.")

        with (
            override_settings(DURABLE_JOBS={"ENQUEUE_LOCK_TIMEOUT": "50ms"}),
            closing(store.for_worker()) as rival,
            rival.atomic(),
        ):
            enqueue(rival, idempotency_key="order:7")
            with store.atomic():
                with pytest.raises(KeyContended, match=r"shop\.pay"):
                    insert(store, new_job(), new_job(idempotency_key="order:7"))
                kept = enqueue(store)

        assert len(every_job(store)) == 2
        assert shown(store, kept).state == states.READY

    @pytest.mark.parametrize("commits", [True, False])
    def test_a_key_held_by_a_transaction_that_ends_is_decided_by_its_end(
        self, store: JobStore, commits: bool
    ) -> None:
        if not store.features.transactional:
            pytest.skip("This driver joins no transaction.")

        with closing(store.for_worker()) as rival, ThreadPoolExecutor(1) as threads:
            with suppress(RuntimeError), rival.atomic():
                holder = enqueue(rival, idempotency_key="order:7")
                with closing(store.for_worker()) as own:
                    job = new_job(idempotency_key="order:7")
                    answer = threads.submit(insert, own, job)
                    if not commits:
                        raise RuntimeError
            [inserted] = answer.result()

        assert inserted.created is not commits
        assert inserted.id == (holder if commits else job.id)
        assert len(every_job(store)) == 1

    def test_a_refused_key_leaves_the_callers_transaction_usable(self, store: JobStore) -> None:
        holder = enqueue(store, idempotency_key="order:7")

        with store.atomic():
            with pytest.raises(JobDuplicate):
                store.insert([new_job(idempotency_key="order:7")], on_conflict="raise")
            kept = enqueue(store)

        assert {row.id for row in every_job(store)} == {holder, kept}
