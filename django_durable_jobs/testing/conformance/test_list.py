from __future__ import annotations

from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import pytest

from django_durable_jobs import states
from django_durable_jobs.exceptions import PageInvalid
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.ids import new_id
from django_durable_jobs.store.rows import JobFilter, JobRow

from .given import Clock, claimed, enqueue, finished, insert, new_job, parked, shown

EVERY_JOB: Final = JobFilter()


class TestList:
    def test_jobs_are_listed_newest_first(self, store: JobStore) -> None:
        jobs = [enqueue(store) for _ in range(3)]
        jobs += [answer.id for answer in insert(store, *(new_job() for _ in range(3)))]

        rows = page(store)

        assert [row.id for row in rows] == jobs[::-1]
        assert rows[0] == shown(store, jobs[-1])

    def test_cursors_page_to_older_and_back_to_newer_jobs(self, store: JobStore) -> None:
        newest_first = [answer.id for answer in insert(store, *(new_job() for _ in range(7)))][::-1]

        first = page(store, limit=3)
        second = page(store, limit=3, after=first[-1].id)
        last = page(store, limit=3, after=second[-1].id)
        back = page(store, limit=3, before=last[0].id)
        start = page(store, limit=9, before=second[0].id)

        assert [row.id for row in (*first, *second, *last)] == newest_first
        assert len(last) == 1
        assert back == second
        assert start == first

    def test_every_given_field_must_match(self, store: JobStore) -> None:
        done = finished(store, states.DONE, name="shop.done")
        mail = enqueue(store, queue="mail", name="shop.mail", tenant_id="acme")
        enqueue(store, queue="mail", name="shop.mail")
        enqueue(store, name="shop.mail", tenant_id="acme")

        def ids(**where: Any) -> list[object]:
            return [row.id for row in page(store, JobFilter(**where))]

        assert ids(queue="mail", name="shop.mail", tenant_id="acme") == [mail]
        assert len(ids(name="shop.mail")) == 3
        assert ids(state=states.DONE) == [done]
        assert ids(state=states.DEAD) == []
        assert ids(id_prefix=str(mail)) == [mail]
        assert mail in ids(id_prefix=str(mail)[:11])
        assert ids(id_prefix="zzz") == []

    def test_jobs_are_found_by_when_they_were_enqueued(self, store: JobStore, clock: Clock) -> None:
        old = enqueue(store)
        clock.advance(hours=2)
        line = store.now() - timedelta(hours=1)
        new = enqueue(store)

        assert [row.id for row in page(store, JobFilter(created_from=line))] == [new]
        assert [row.id for row in page(store, JobFilter(created_to=line))] == [old]

    def test_a_page_of_none_answers_nothing(self, store: JobStore) -> None:
        enqueue(store)

        assert page(store, limit=0) == []

    def test_filters_page_as_well(self, store: JobStore) -> None:
        mine = [enqueue(store, tenant_id=tenant) for tenant in "abababab"][::2]

        first = page(store, JobFilter(tenant_id="a"), limit=2)
        rest = page(store, JobFilter(tenant_id="a"), limit=9, after=first[-1].id)

        assert [row.id for row in (*first, *rest)] == mine[::-1]

    @pytest.mark.parametrize("limit", [-1, 2.5, float("nan"), float("inf"), True, "9", None])
    def test_a_page_size_that_is_no_whole_number_is_refused(
        self, store: JobStore, limit: object
    ) -> None:
        with pytest.raises(ValueError, match="limit"):
            store.list_jobs(JobFilter(), limit=limit, after=None, before=None)  # type: ignore[arg-type]  # what is refused

    def test_a_page_beyond_the_most_is_refused_and_not_cut(self, store: JobStore) -> None:
        assert page(store, limit=200) == []
        with pytest.raises(PageInvalid, match="200"):
            page(store, limit=201)

    def test_both_cursors_at_once_are_refused(self, store: JobStore) -> None:
        job_id = enqueue(store)

        with pytest.raises(PageInvalid):
            page(store, after=job_id, before=job_id)

    def test_an_unknown_job_is_not_shown(self, store: JobStore) -> None:
        assert store.show(new_id()) is None
        assert store.attempts(new_id()) == []


class TestStats:
    def test_every_unfinished_or_dead_job_counts_in_exactly_one_state(
        self, store: JobStore
    ) -> None:
        parked(store)
        claimed(store)
        for state in states.FINISHED_STATES:
            finished(store, state, queue="mail")
        finished(store, states.DEAD)
        enqueue(store)
        insert(store, *(new_job(delay=timedelta(hours=1)) for _ in range(2)))

        depth = {each.queue: each.counts for each in store.stats()}

        assert {state: n for state, n in depth["default"].items() if n} == {
            states.READY: 1,
            states.DELAYED: 2,
            states.RUNNING: 1,
            states.SUSPENDED: 1,
            states.DEAD: 1,
        }
        assert {state: n for state, n in depth["mail"].items() if n} == {
            states.FAILED: 1,
            states.DEAD: 1,
        }

    def test_the_age_of_the_oldest_due_job_is_told(self, store: JobStore, clock: Clock) -> None:
        enqueue(store)
        clock.advance(minutes=10)
        enqueue(store)
        enqueue(store, queue="later", delay=timedelta(hours=1))

        ages = {each.queue: each.oldest_ready_seconds for each in store.stats()}

        assert ages["default"] is not None
        assert 600 <= ages["default"] < 660
        assert ages["later"] is None

    def test_a_queue_with_nothing_left_is_not_told(self, store: JobStore) -> None:
        finished(store, states.DONE)
        finished(store, states.CANCELLED, queue="mail")

        assert store.stats() == []


def page(
    store: JobStore,
    where: JobFilter = EVERY_JOB,
    *,
    limit: int = 100,
    after: UUID | None = None,
    before: UUID | None = None,
) -> list[JobRow]:
    return store.list_jobs(where, limit=limit, after=after, before=before)
