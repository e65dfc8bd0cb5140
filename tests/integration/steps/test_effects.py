"""Effects that happen exactly once are those in the jobs' own database; others are refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from django.contrib.auth.models import Group
from django.db import connections, transaction
from psycopg.sql import SQL, Identifier

from django_durable_jobs import JobContext, Retry, job
from django_durable_jobs.exceptions import EffectsElsewhere
from django_durable_jobs.jobs import JobDefinition
from tests.integration.declared import REAL_ON_BOTH

pytestmark = REAL_ON_BOTH

ATOMIC_JOB = "The atomic job 'shop.atomic'"
REMEDY = (
    "wrote to the database 'other': its transaction is on that of the jobs, 'default', and "
    "cannot hold both. The write did not take place. Write there outside of it, such as "
    "in a step of its own, or keep the jobs on that database."
)


@pytest.fixture
def bench(real_bench):
    return real_bench


def here():
    return sorted(Group.objects.values_list("name", flat=True))


def elsewhere():
    return sorted(Group.objects.using("other").values_list("name", flat=True))


def in_step(bench, act):
    """Run *act* in an atomic step; its error."""
    return bench.attempt(lambda ctx: ctx.step.atomic("record", act)).error


def in_block(bench, act):
    """Run *act* in the body's own transaction; its error."""

    def body(ctx):
        with ctx.atomic():
            act()

    return bench.attempt(body).error


BLOCKS = {"Step 'record'": in_step, "ctx.atomic()": in_block}


class Block:
    """Runs an act in one kind of block, behind a write to the jobs' own database."""

    def __init__(self, what, bench):
        self.what = what
        self._bench = bench

    def __call__(self, act):
        def with_a_write_here():
            Group.objects.create(name="here")
            act()

        return BLOCKS[self.what](self._bench, with_a_write_here)


@pytest.fixture(params=BLOCKS)
def block(request, bench):
    bench.enqueue()
    return Block(request.param, bench)


def insert():
    Group.objects.using("other").create(name="elsewhere")


def sql(text, params=None):
    with connections["other"].cursor() as cursor:
        cursor.execute(text, params)
        return cursor.fetchall() if cursor.description else None


WRITES = {
    "save": insert,
    "bulk": lambda: Group.objects.using("other").bulk_create([Group(name="a"), Group(name="b")]),
    "update": lambda: Group.objects.using("other").update(name="changed"),
    "delete": lambda: Group.objects.using("other").all()._raw_delete("other"),
    "cte": lambda: sql(
        "with new as (insert into auth_group (name) values ('x') returning id) select id from new"
    ),
    "comment": lambda: sql("-- a note\ninsert into auth_group (name) values ('x')"),
    "many": lambda: (
        connections["other"]
        .cursor()
        .executemany("insert into auth_group (name) values (%s)", [["x"], ["y"]])
    ),
    "in a transaction": lambda: in_a_transaction_of_the_other(insert),
}


def in_a_transaction_of_the_other(act):
    with transaction.atomic(using="other"):
        act()


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_to_another_database_is_refused_and_nothing_is_kept(bench, block, write):
    Group.objects.using("other").create(name="before")
    job_id = bench.jobs("shop.pay")[0].id
    error = block(write)

    assert isinstance(error, EffectsElsewhere)
    assert str(error) == f"{block.what} {REMEDY}"
    assert (here(), elsewhere()) == ([], ["before"])
    assert bench.steps(job_id) == {}
    row = bench.row(job_id)
    assert (row.state, row.error_code) == ("dead", "X_STEP_EFFECTS_ELSEWHERE")


def test_a_write_that_the_function_gives_up_after_the_refusal_leaves_the_rest(bench, block):
    def act():
        with suppress(EffectsElsewhere):
            insert()

    assert block(act) is None
    assert (here(), elsewhere()) == (["here"], [])


READS = {
    "orm": lambda: list(Group.objects.using("other").all()),
    "count": lambda: Group.objects.using("other").count(),
    "locked": lambda: in_a_transaction_of_the_other(
        lambda: list(Group.objects.using("other").select_for_update())
    ),
    "iterator": lambda: list(Group.objects.using("other").iterator(chunk_size=1)),
    "cte": lambda: sql("with all_of_them as (select 1 from auth_group) select * from all_of_them"),
    "comments": lambda: sql("/* report */ -- daily\n with a as (select 1) select * from a"),
    "savepoints": lambda: in_a_transaction_of_the_other(
        lambda: in_a_transaction_of_the_other(lambda: list(Group.objects.using("other").all()))
    ),
    "explain": lambda: Group.objects.using("other").all().explain(),
    "bytes": lambda: sql(b"select 1"),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_from_another_database_is_allowed(bench, block, read):
    Group.objects.using("other").create(name="before")

    assert block(read) is None
    assert here() == ["here"]


COMPOSED = SQL("{} from {}")


@pytest.mark.parametrize(("verb", "is_refused"), [("select 1", False), ("delete", True)])
def test_a_statement_composed_by_the_client_is_judged_by_its_text(block, verb, is_refused):
    statement = COMPOSED.format(SQL(verb), Identifier("auth_group"))

    assert isinstance(block(lambda: sql(statement)), EffectsElsewhere) is is_refused


def test_the_jobs_own_database_under_its_own_name_is_no_other(bench, block):
    assert block(lambda: Group.objects.using("default").create(name="also here")) is None
    assert here() == ["also here", "here"]


def test_a_plain_step_may_write_elsewhere_and_so_may_the_body(bench):
    bench.enqueue()

    def body(ctx):
        ctx.step.run("elsewhere", lambda: insert())
        Group.objects.using("other").create(name="body")
        ctx.step.atomic("record", lambda: Group.objects.create(name="here").pk)
        Group.objects.using("other").create(name="behind")

    assert bench.attempt(body).error is None
    assert (here(), elsewhere()) == (["here"], ["behind", "body", "elsewhere"])


def test_a_block_that_failed_refuses_nothing_behind_it(bench):
    bench.enqueue()
    in_step(bench, insert)
    insert()

    assert elsewhere() == ["elsewhere"]


def test_a_database_that_carries_the_jobs_is_the_one_that_counts(bench, settings):
    """The setting decides which alias that is, not its name."""
    settings.DURABLE_JOBS = {"DATABASE": "other"}
    ctx = JobContext.inline("shop.pay")

    with pytest.raises(EffectsElsewhere, match="wrote to the database 'default'"):
        ctx.step.atomic("record", lambda: Group.objects.using("default").create(name="x").pk)
    assert here() == []


@pytest.fixture
def atomic_job(declaring) -> JobDefinition[..., None]:
    @job(name="shop.atomic", atomic=True, retry=Retry(attempts=1))
    def atomic_job(where: str) -> None:
        Group.objects.create(name="here")
        if where == "nowhere":
            return
        Group.objects.using(where).create(name="there")

    return atomic_job


def test_an_atomic_job_that_writes_elsewhere_is_refused_and_nothing_is_kept(bench, atomic_job):
    atomic_job.enqueue(where="other")
    (worked,) = bench.work()

    assert isinstance(worked.error, EffectsElsewhere)
    assert str(worked.error) == f"{ATOMIC_JOB} {REMEDY}"
    assert worked.state == "dead"
    assert (here(), elsewhere()) == ([], [])


def test_an_atomic_job_that_writes_here_is_not(bench, atomic_job):
    atomic_job.enqueue(where="default")

    assert [worked.state for worked in bench.work()] == ["done"]
    assert here() == ["here", "there"]
