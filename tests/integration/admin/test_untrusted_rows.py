"""Whoever can write a row gains nothing: what is stored is shown, never run or rebuilt."""

from __future__ import annotations

import base64
import pickle

import pytest
from django.db import connection

from django_durable_jobs.models import Job
from django_durable_jobs.testing.factories import JobAttemptFactory, JobFactory, JobStepFactory

from .conftest import LIST, page_of

pytestmark = pytest.mark.django_db

MARKUP = '<img src=x onerror=alert(1)></script><script>alert(1)</script>"onmouseover="alert(1)'


class Bomb:
    """Unpickling one fails the test: it makes a row that nothing but code can make."""

    def __reduce__(self):
        return (Job.objects.create, (), {})


HOSTILE = [
    MARKUP,
    "javascript:alert(1)",
    "{{ 7|add:7 }}{% debug %}",
    "{0.__class__.__init__.__globals__}%(password)s%s",
    "os.system",
    "subprocess.Popen",
    "builtins.eval",
    "shop.jobs.__builtins__",
    "!!python/object/apply:os.system [id]",
    base64.b64encode(pickle.dumps(Bomb())).decode(),
    "\u2028\u202e\ufeff☃",
]


@pytest.fixture(params=HOSTILE, ids=range(len(HOSTILE)))
def hostile(request):
    """A job and its rows, with the same text in every column that people or code can fill."""
    text = request.param
    payload = {text: [text, {"k": text}]}
    job = JobFactory.create(
        state="dead", name=text, queue=text, worker_id=text, tenant_id=text,
        concurrency_key=text, idempotency_key=text, input=payload, input_preview=text,
        result=payload, progress=payload, last_error=text, error_class=text, error_code=text,
        stop_reason=text, enqueued_by=text, origin=text, origin_id=text, code_version=text,
        trace_parent=text,
    )  # fmt: skip
    JobStepFactory.create(job=job, name=text, output=payload, event=text, correlation_key=text)
    JobAttemptFactory.create(
        job=job, error_class=text, error_code=text, message=text, traceback=text, worker_id=text,
        outcome=text,
    )  # fmt: skip
    return job


def test_hostile_text_is_shown_as_text_on_every_page(operator, hostile):
    select = {"action": "requeue", "_selected_action": [str(hostile.pk)]}
    pages = [
        operator.get(LIST),
        operator.get(LIST, {"name": hostile.name, "queue": hostile.name, "q": hostile.name}),
        operator.get(page_of(hostile)),
        operator.get(page_of(hostile, "op", "requeue")),
        operator.get(page_of(hostile, "history")),
        operator.post(LIST, select),
    ]

    for response in pages:
        assert response.status_code == 200
        html = response.content.decode()
        assert "<img src=x" not in html
        assert "<script>alert" not in html
        assert '"onmouseover=' not in html
        assert 'href="javascript:' not in html
    assert Job.objects.count() == 1


def test_hostile_text_is_still_text_after_an_operation(operator, hostile):
    response = operator.post(
        page_of(hostile, "op", "requeue"), {"reason": hostile.name[:300]}, follow=True
    )

    assert response.status_code == 200
    html = response.content.decode()
    assert "<img src=x" not in html
    assert "<script>alert" not in html
    hostile.refresh_from_db()
    assert hostile.state == "ready"


def test_a_download_is_a_file_and_no_page(operator, hostile):
    response = operator.get(page_of(hostile, "payload", "input"))

    assert response["Content-Type"] == "application/json; charset=utf-8"
    assert response["Content-Disposition"].startswith("attachment;")
    assert response["X-Content-Type-Options"] == "nosniff"


def test_a_state_and_a_status_of_a_newer_version_are_shown_as_they_are(operator):
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE x_jobs DROP CONSTRAINT x_jobs_state_check")
    job = JobFactory.create(state="hibernating")
    JobStepFactory.create(job=job, status="dreaming")

    assert "hibernating" in operator.get(LIST).content.decode()
    html = operator.get(page_of(job)).content.decode()
    assert "does not know the state “hibernating”" in html
    assert "dreaming" in html
    assert operator.get(page_of(job, "op", "cancel")).status_code == 200
    response = operator.post(page_of(job, "op", "cancel"), follow=True)
    assert "Nothing changed: the job is hibernating now." in response.content.decode()


@pytest.mark.parametrize("value", [None, True, 0, "", [], {}, [[[[[]]]]], "\\", '"', "a\nb\tc"])
def test_any_json_is_shown(operator, value):
    job = JobFactory.create(done=True, input=value if value is not None else {}, result=value)

    assert operator.get(page_of(job)).status_code == 200
