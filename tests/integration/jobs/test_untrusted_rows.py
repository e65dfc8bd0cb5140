"""Whoever can write a row cannot make a worker run anything but declared jobs."""

from __future__ import annotations

import base64
import logging
import pickle
from typing import Any

import pytest

from django_durable_jobs import Retry, job
from django_durable_jobs.models import Job, JobAttempt, JobStep
from django_durable_jobs.testing.factories import JobFactory, JobStepFactory
from tests.integration.burst import work_until_idle
from tests.integration.declared import REAL

pytestmark = REAL

ran: list[str] = []


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return (ran.append, ("unpickled",))


PICKLE = base64.b64encode(pickle.dumps(Bomb())).decode()

PAYLOADS = [
    PICKLE,
    pickle.dumps(Bomb(), protocol=0).decode("latin-1"),
    '!!python/object/apply:os.system ["true"]',
    "{0.__class__.__init__.__globals__}",
    "${jndi:ldap://x}",
    "__import__('os').system('true')",
]


def not_a_job() -> None:
    """Here for a stored path to name."""
    ran.append("an undecorated function")


@pytest.fixture(autouse=True)
def _nothing_ran():
    ran.clear()
    yield
    assert ran == []


@pytest.mark.parametrize(
    "name",
    [
        "os.system",
        "subprocess.Popen",
        "builtins.eval",
        "tests.integration.jobs.test_untrusted_rows.not_a_job",
        "tests.integration.jobs.test_untrusted_rows.__builtins__",
        "example_project.orders.jobs.__builtins__",
        "django.core.management.call_command",
        "{0.__class__}",
        PICKLE[:200],
    ],
)
def test_a_stored_name_is_looked_up_and_never_imported(name, caplog):
    caplog.set_level(logging.ERROR)
    row = JobFactory.create(name=name, input={"command": "flush", "cmd": "true"})

    work_until_idle(slots=1)

    row.refresh_from_db()
    assert (row.state, row.attempt) == ("ready", 0)
    assert row.unknown_since is not None
    assert [record.getMessage() for record in caplog.records] == [
        f"jobs.name.unknown: no job '{name}' is declared here; its jobs are given back until a "
        "worker knows it. Declare it in the module 'jobs' of an installed app, or list the name in "
        "aliases=[...]."
    ]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_stored_payload_reaches_the_body_as_the_text_that_it_is(payload):
    seen = []

    @job(name="untrusted.echo")
    def echo(text: str) -> Any:
        seen.append(text)
        return {"text": text}

    row = JobFactory.create(name="untrusted.echo", input={"text": payload})

    work_until_idle(slots=1)

    row.refresh_from_db()
    assert (row.state, row.result, seen) == ("done", {"text": payload}, [payload])


@pytest.mark.parametrize("payload", [[1, 2], "text", 7, {"args": [], "kwargs": {}}])
def test_a_stored_payload_of_another_shape_ends_its_job_and_not_the_worker(payload):
    @job(name="untrusted.echo")
    def echo(text: str) -> str:
        return text

    row = JobFactory.create(name="untrusted.echo", input=payload)
    good = echo.enqueue(text="good")

    work_until_idle(slots=1)

    row.refresh_from_db()
    good.refresh()
    assert (row.state, row.error_code) == ("dead", "X_JOB_INPUT_INVALID")
    assert good.return_value == "good"


def test_a_stored_step_and_error_class_are_text_and_never_rebuilt():
    from django_durable_jobs import JobContext

    @job(name="untrusted.flow", retry=Retry(attempts=2))
    def flow(ctx: JobContext) -> Any:
        return ctx.step.run("first", lambda: ran.append("a finished step"))

    row = JobFactory.create(
        name="untrusted.flow",
        input={},
        claims=1,
        error_class="os.system",
        last_error="{0.__class__}",
        error_code=PICKLE,
    )
    JobStepFactory.create(job=row, name="first", seq=1, output=PICKLE)
    JobAttempt.objects.create(
        job=row,
        claim=1,
        attempt=1,
        outcome="ready",
        error_class="subprocess.Popen",
        finished_at=row.created_at,
    )

    work_until_idle(slots=1)

    row.refresh_from_db()
    assert (row.state, row.result) == ("done", PICKLE)
    assert JobStep.objects.get().output == PICKLE
    assert Job.objects.count() == 1
