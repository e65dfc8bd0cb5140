"""No counter of ours ends where 32 bits do, and none grows with traffic."""

from __future__ import annotations

import pytest
from django.db import connection

from django_durable_jobs import Retry, job
from django_durable_jobs.exceptions import DeclarationInvalid, OptionInvalid
from django_durable_jobs.models import Job
from django_durable_jobs.testing import run_jobs

pytestmark = pytest.mark.django_db

# What a person or a job's own attempts bound; no id and no count of jobs is among them.
SMALL_NUMBERS = {
    "priority",
    "attempt",
    "max_attempts",
    "seq",
    "slots",
    "pid",
    "tries",
    # Children of one step, events of one wait, requeues by hand.
    "children",
    "children_at_once",
    "place",
    "generation",
}


def ask(sql: str) -> list[tuple]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def test_no_id_and_no_growing_count_is_kept_in_32_bits():
    rows = ask(
        "select column_name from information_schema.columns where table_schema = 'public' "
        "and table_name like 'x\\_%' and data_type in ('integer', 'smallint')"
    )

    assert {row[0] for row in rows} <= SMALL_NUMBERS


def test_no_sequence_is_used_up_by_traffic():
    """Ids are made in the process, so there is no sequence that conflicts could exhaust."""
    rows = ask(
        "select s.relname from pg_class s "
        "join pg_depend d on d.objid = s.oid and d.deptype in ('a', 'i') "
        "join pg_class t on t.oid = d.refobjid "
        "where s.relkind = 'S' and t.relname like 'x\\_%'"
    )

    assert rows == []


def test_traffic_moves_no_sequence_of_the_database():
    @job(name="numbers.count", idempotency_key=lambda i: "one")
    def count() -> None: ...

    def positions():
        return ask("select sequencename, last_value from pg_sequences order by 1")

    before = positions()
    for _ in range(50):
        count.enqueue()
    run_jobs()

    assert positions() == before


@pytest.mark.parametrize("attempts", [255, 256, 32_767, 32_768, 1_000_000_000])
def test_attempts_far_beyond_16_bits_are_counted(attempts):
    @job(name="numbers.flaky", retry=Retry(attempts=attempts, delay=0, jitter="none"))
    def flaky() -> None:
        raise RuntimeError("no")

    result = flaky.enqueue()
    Job.objects.filter(id=result.id).update(attempt=attempts - 2, claims=2**40)

    executions = run_jobs(raise_errors=False)

    assert [(ran.attempt, ran.state) for ran in executions] == [
        (attempts - 1, "ready"),
        (attempts, "dead"),
    ]
    assert Job.objects.get(id=result.id).claims == 2**40 + 2


def test_more_attempts_than_can_be_counted_are_refused_at_the_declaration():
    with pytest.raises(DeclarationInvalid) as refused:
        job(name="numbers.endless", retry=Retry(attempts=1_000_000_001))(lambda: None)

    assert str(refused.value) == (
        "Job 'numbers.endless' has a retry of more than 1,000,000,000 attempts."
    )


@pytest.mark.parametrize("priority", [32_767, -32_767])
def test_the_outermost_priorities_are_kept(priority):
    @job(name="numbers.urgent", priority=priority)
    def urgent() -> None: ...

    assert Job.objects.get(id=urgent.enqueue().id).priority == priority
    assert Job.objects.get(id=urgent.using(priority=-priority).enqueue().id).priority == -priority


@pytest.mark.parametrize("priority", [32_768, -32_768])
def test_a_priority_beyond_them_is_refused_at_declaration_and_enqueue(priority):
    def urgent() -> None: ...

    with pytest.raises(DeclarationInvalid) as at_declaration:
        job(name="numbers.urgent", priority=priority)(urgent)
    with pytest.raises(OptionInvalid) as at_enqueue:
        job(name="numbers.urgent")(urgent).using(priority=priority).enqueue()

    assert str(at_declaration.value) == (
        "Job 'numbers.urgent' has a priority that is out of range: -32767 to 32767."
    )
    assert str(at_enqueue.value) == (
        "Job 'numbers.urgent': option priority is out of range: -32767 to 32767."
    )


def test_higher_priorities_run_first():
    ran = []

    @job(name="numbers.ranked")
    def ranked(priority: int) -> None:
        ran.append(priority)

    for priority in (0, -32_767, 32_767, 5):
        ranked.using(priority=priority).enqueue(priority=priority)
    run_jobs()

    assert ran == [32_767, 5, 0, -32_767]
