"""Names of any script and shape work from the enqueue to the worker, up to 200 bytes."""

from __future__ import annotations

import unicodedata

import pytest

from django_durable_jobs import job
from django_durable_jobs.exceptions import DeclarationInvalid, OptionInvalid
from django_durable_jobs.models import Job
from tests.integration.burst import work_until_idle
from tests.integration.declared import REAL, heard, stored

NFC = unicodedata.normalize("NFC", "Zürich")
NFD = unicodedata.normalize("NFD", "Zürich")
SAME_START = "s" * 63

NAMES = [
    "x" * 43,
    "x" * 44,
    "x" * 63,
    "x" * 64,
    "x" * 200,
    "あ" * 22,
    "あ" * 66,
    f"{SAME_START}a",
    f"{SAME_START}b",
    "with space",
    ' "quoted" ',
    "it's",
    "a; drop table x_jobs; --",
    "a/b\\c",
    "🚚",
    "UPPER",
    "upper",
    NFC,
    NFD,
    " leading",
    "1.5 proof",
    "proof abc",
    "%s %(name)s {0.__class__}",
    "line\nbreak\tand tab",
    ":'name'",
    "__class__",
]


@REAL
def test_each_queue_wakes_as_itself_and_runs_its_own_job(listener):
    ran = []
    jobs = []
    for number, queue in enumerate(NAMES):

        def body(number=number) -> None:
            ran.append(NAMES[number])

        jobs.append(job(name=f"names.{number}", queue=queue)(body))

    for declared in jobs:
        declared.enqueue()

    assert heard(listener) == NAMES
    work_until_idle()
    assert sorted(ran) == sorted(NAMES)
    assert set(Job.objects.values_list("state", flat=True)) == {"done"}


@REAL
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_such_a_name_of_a_job_key_and_tenant_is_stored_exactly(name):
    @job(name=name, idempotency_key=lambda i: name, tenant=lambda i: name)
    def body() -> str:
        return "ran"

    result = body.enqueue()

    row = Job.objects.get(id=result.id)
    assert (row.name, row.idempotency_key, row.tenant_id) == (name, name, name)
    assert body.enqueue().id == result.id
    work_until_idle(slots=1)
    result.refresh()
    assert result.return_value == "ran"


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("x" * 201, "takes 201 bytes as UTF-8; the limit is 200"),
        ("あ" * 67, "takes 201 bytes as UTF-8; the limit is 200"),
        ("", "is blank"),
        (" \t", "is blank"),
        ("a\0b", "holds a NUL character, which PostgreSQL cannot store"),
        ("\ud800", "holds a lone surrogate, which is not valid text"),
        (7, "is of type int, not text"),
    ],
    ids=["long", "long in bytes", "empty", "blank", "nul", "surrogate", "number"],
)
@pytest.mark.django_db
def test_a_name_that_cannot_be_kept_is_refused_where_it_is_declared(name, fault):
    def body() -> None: ...

    with pytest.raises(DeclarationInvalid) as of_the_job:
        job(name=name)(body)
    with pytest.raises(DeclarationInvalid) as of_the_queue:
        job(name="names.body", queue=name)(body)
    with pytest.raises(DeclarationInvalid) as of_an_alias:
        job(name="names.body", aliases=[name])(body)
    declared = job(name="names.body")(body)
    with pytest.raises(OptionInvalid) as of_the_option:
        declared.using(queue=name).enqueue()

    assert str(of_the_job.value) == f"Job '{body.__qualname__}' has a name that {fault}."
    assert str(of_the_queue.value) == f"Job 'names.body' has a queue that {fault}."
    assert str(of_an_alias.value) == f"Job 'names.body' has an alias that {fault}."
    assert str(of_the_option.value) == f"Job 'names.body': option queue {fault}."
    assert stored() == []
