"""The page of one job: what it says, shows, hides and cuts."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_durable_jobs.admin.payload import SHOWN
from django_durable_jobs.admin.timeline import SHOWN_STEPS
from django_durable_jobs.models import JobPause
from django_durable_jobs.testing.factories import JobAttemptFactory, JobFactory, JobStepFactory

from .conftest import LIST, page_of

pytestmark = pytest.mark.django_db

NEVER = datetime(9999, 12, 31, tzinfo=UTC)


def page(client, job):
    response = client.get(page_of(job))
    assert response.status_code == 200
    return response


def test_a_ready_job_says_that_it_waits_for_a_worker(viewer):
    job = JobFactory.create(queue="billing")

    assert "waits for a free worker of queue “billing”" in page(viewer, job).context["why"]


def test_a_ready_job_says_who_paused_its_queue_and_why(viewer):
    JobPause.objects.create(kind="queue", name="billing", paused_by="ines", reason="S3 is down")

    why = page(viewer, JobFactory.create(queue="billing")).context["why"]

    assert "is paused (by ines, now): S3 is down" in why


def test_a_job_that_no_worker_knows_says_so_and_what_to_do(viewer):
    since = timezone.now() - timedelta(minutes=5)
    job = JobFactory.create(name="shop.gone", unknown_since=since)

    assert page(viewer, job).context["why"] == (
        f"No worker that took it knows a job named “shop.gone” (since "
        f"{since:%Y-%m-%d %H:%M:%S} UTC). Deploy the code that declares it: until then it is "
        "given back each time."
    )


def test_a_delayed_job_says_when_it_is_due(viewer):
    due = timezone.now() + timedelta(minutes=30, seconds=10)

    why = page(viewer, JobFactory.create(state="delayed", run_at=due)).context["why"]

    assert why == f"Due in 30 min ({due:%Y-%m-%d %H:%M:%S} UTC)."


def test_a_job_between_attempts_says_which_failed_and_when_the_next_is_due(viewer):
    due = timezone.now() + timedelta(seconds=30.5)

    why = page(viewer, JobFactory.create(run_at=due, attempt=2, max_attempts=5)).context["why"]

    assert why.startswith("Attempt 2 of 5 failed; the next one is due in 30 s")


def test_a_running_job_names_its_worker_and_lease(viewer):
    why = page(viewer, JobFactory.create(running=True)).context["why"]

    assert why.startswith("Attempt 1 of 5 runs on worker web-1:4711, which holds it for another")


def test_a_running_job_whose_lease_lapsed_says_that_it_is_taken_over(viewer):
    lapsed = timezone.now() - timedelta(seconds=8)

    why = page(viewer, JobFactory.create(running=True, lease_expires_at=lapsed)).context["why"]

    assert "has not been heard of; its lease ended 8" in why


def test_a_suspended_job_names_the_event_and_key_it_waits_for(viewer):
    job = JobFactory.create(state="suspended", run_at=NEVER)
    JobStepFactory.create(
        job=job, name="approval", status="waiting", event="order.approved", correlation_key="7"
    )

    response = page(viewer, job)

    why = response.context["why"]
    assert "Step “approval” waits for the event “order.approved” with key “7” since" in why
    assert why.endswith("for as long as it takes.")
    assert "9999" not in response.content.decode()


def test_a_suspended_job_says_that_it_waits_for_any_of_several_events(viewer):
    job = JobFactory.create(state="suspended", run_at=NEVER)
    JobStepFactory.create(
        job=job,
        name="outcome",
        status="waiting",
        event="payment.done",
        alternatives=[["payment.failed", None], ["order.dropped", "7"]],
    )

    why = page(viewer, job).context["why"]

    assert "for the event “payment.done” or for one of 2 others since" in why


@pytest.mark.parametrize(("children", "said"), [(1, "its child job."), (50, "its 50 child jobs.")])
def test_a_suspended_job_says_that_it_waits_for_children(viewer, children, said):
    job = JobFactory.create(state="suspended", run_at=NEVER)
    JobStepFactory.create(
        job=job, name="ship", status="calling", children=children, family_id=UUID(int=7)
    )

    assert page(viewer, job).context["why"] == f"Step “ship” waits for the end of {said}"


def test_a_child_that_is_held_back_says_for_what(viewer):
    job = JobFactory.create(
        state="delayed",
        run_at=NEVER,
        parent_id=UUID(int=6),
        parent_step="count",
        family_id=UUID(int=7),
    )

    response = page(viewer, job)

    why = response.context["why"]
    assert why.startswith("Held back: step “count” of its parent bounds how many")
    assert "9999" not in response.content.decode()


def test_a_suspended_job_says_when_its_sleep_ends(viewer):
    wakes = timezone.now() + timedelta(hours=5, seconds=30)
    job = JobFactory.create(state="suspended", run_at=wakes)
    JobStepFactory.create(job=job, name="cool off", status="sleeping", wake_at=wakes)

    assert page(viewer, job).context["why"].startswith("Step “cool off” sleeps; it wakes in 5 h")


def test_a_dead_job_says_that_nothing_happens_until_somebody_retries_it(viewer):
    job = JobFactory.create(dead=True, stop_reason="The attempts are used up.")

    why = page(viewer, job).context["why"]

    assert "after 5 of 5 attempts. Nothing happens until somebody retries it." in why
    assert why.endswith("The attempts are used up.")


def test_a_cancelled_job_says_who_cancelled_it_and_why(viewer):
    job = JobFactory.create(
        state="cancelled", finished_at=timezone.now(), stop_reason="ines: order withdrawn"
    )

    assert page(viewer, job).context["why"].endswith("ines: order withdrawn")


def test_a_page_is_shown_in_any_time_zone_and_without_time_zones(viewer, settings):
    job = JobFactory.create(state="suspended", run_at=NEVER, lease_expires_at=NEVER)
    JobStepFactory.create(job=job, status="waiting", event="x", wake_at=NEVER)
    settings.TIME_ZONE = "Pacific/Kiritimati"
    page(viewer, job)
    settings.USE_TZ = False
    page(viewer, job)
    assert viewer.get(LIST).status_code == 200


def test_steps_stand_in_order_with_event_key_wake_and_output(operator):
    job = JobFactory.create(state="suspended", run_at=NEVER)
    JobStepFactory.create(
        job=job, seq=2, name="approval", status="waiting", event="order.approved",
        correlation_key="7", wake_at=timezone.now() + timedelta(days=3), output=None,
    )  # fmt: skip
    JobStepFactory.create(job=job, seq=1, name="charge", output={"charge": "ch_1"}, attempt=3)

    response = page(operator, job)

    rows = [row for row in response.context["timeline"].rows if row.seq is not None]
    assert [(row.seq, row.name) for row in rows] == [(1, "charge"), (2, "approval")]
    assert rows[0].output == '{"charge": "ch_1"}'
    html = response.content.decode()
    for text in ("order.approved · 7", "in 3 d", "×3"):
        assert text in html


def test_a_step_that_knows_its_end_alone_shows_how_long_it_took_at_most(viewer):
    start = timezone.now() - timedelta(minutes=1)
    job = JobFactory.create(running=True, claims=2, started_at=start, created_at=start)
    ends = [timedelta(seconds=-9), timedelta(seconds=3), timedelta(seconds=8)]
    for seq, (end, claim) in enumerate(zip(ends, (1, 2, 2), strict=True)):
        moment = start + end
        JobStepFactory.create(
            job=job, seq=seq, claim=claim, name=str(seq), started_at=moment, finished_at=moment
        )

    rows = page(viewer, job).context["timeline"].rows

    assert [row.duration for row in rows] == ["", "≤ 3.0 s", "≤ 5.0 s"]


def test_a_wait_that_counts_from_the_enqueue_is_not_shown_from_there(viewer):
    """Its stored time is that of the enqueue, when the job was still in the queue."""
    now = timezone.now()
    created = now - timedelta(minutes=9)
    job = JobFactory.create(
        state="suspended", claims=1, created_at=created, started_at=now - timedelta(minutes=6)
    )
    JobStepFactory.create(
        job=job, name="approval", status="waiting", event="approved", claim=1, started_at=created
    )

    queued, wait = page(viewer, job).context["timeline"].rows

    assert (queued.name, queued.duration, queued.bar.x) == ("", "3.0 min", "0.00%")
    assert wait.duration == "≤ 6.0 min"


def test_a_finished_wait_that_counts_from_the_enqueue_begins_behind_the_step_before(viewer):
    now = timezone.now()
    created = now - timedelta(minutes=9)
    job = JobFactory.create(
        state="done", claims=2, created_at=created, started_at=now - timedelta(minutes=1)
    )
    paid = now - timedelta(minutes=5)
    JobStepFactory.create(job=job, seq=1, claim=1, started_at=paid, finished_at=paid)
    JobStepFactory.create(
        job=job,
        seq=2,
        name="approval",
        event="approved",
        claim=2,
        started_at=created,
        finished_at=now - timedelta(minutes=1),
    )

    queued, _, wait = page(viewer, job).context["timeline"].rows

    assert queued.duration == "4.0 min"
    assert wait.duration == "≤ 4.0 min"


def test_a_long_list_of_steps_is_cut_and_says_so(operator):
    job = JobFactory.create(running=True)
    for seq in range(SHOWN_STEPS + 5):
        JobStepFactory.create(job=job, seq=seq, name=f"item {seq}")

    response = page(operator, job)

    assert len([row for row in response.context["timeline"].rows if row.seq is not None]) == 200
    assert "Later steps are not shown." in response.content.decode()


def test_failed_attempts_stand_newest_first_with_their_tracebacks(viewer):
    job = JobFactory.create(dead=True)
    for claim in (1, 2, 3):
        JobAttemptFactory.create(
            job=job, claim=claim, attempt=claim, message=f"boom {claim}", traceback=f"Trace {claim}"
        )

    response = page(viewer, job)

    assert [each.number for each in response.context["tries"]] == [3, 2, 1]
    html = response.content.decode()
    assert html.index("Trace 3") < html.index("Trace 2") < html.index("Trace 1")


def test_a_page_makes_the_same_few_statements_whatever_it_shows(operator):
    plain = JobFactory.create()
    with CaptureQueriesContext(connection) as few:
        page(operator, plain)
    full = JobFactory.create()
    for seq in range(30):
        JobStepFactory.create(job=full, seq=seq, name=str(seq))
        JobAttemptFactory.create(job=full, claim=seq)
    with CaptureQueriesContext(connection) as many:
        page(operator, full)

    assert len(many) == len(few) <= 14


def test_redacted_keys_are_hidden_at_any_depth_on_every_page_and_in_the_download(operator):
    secret = "s3cr3t-XYZ"
    payload = {
        "password": secret,
        "nested": [{"stripeApiKey": secret, "card": {"number": secret}}],
        "plain": "visible",
    }
    job = JobFactory.create(
        done=True, input=payload, result=payload, progress=payload, input_preview=""
    )
    JobStepFactory.create(job=job, output=payload)

    pages = [page(operator, job), operator.get(LIST)]
    pages += [operator.get(page_of(job, "payload", which)) for which in ("input", "result")]

    for each in pages:
        assert each.status_code == 200
        assert secret not in each.content.decode()
    assert "visible" in pages[0].content.decode()


@pytest.mark.parametrize(
    "number", [2**53 + 1, -(2**63), 123456789012345678901234567890, "19.99000000000000000001"]
)
def test_a_number_keeps_every_digit_on_the_page_and_in_the_download(operator, number):
    job = JobFactory.create(done=True, input={"n": number}, result=number)

    assert str(number) in page(operator, job).context["payloads"]["input"].text
    assert str(number) in page(operator, job).context["payloads"]["result"].text
    assert json.loads(operator.get(page_of(job, "payload", "input")).content) == {"n": number}


def test_a_large_payload_is_cut_on_the_page_and_whole_in_the_download(operator):
    items = [f"item {n}" for n in range(60_000)]
    job = JobFactory.create(done=True, input={"items": items}, result={"items": items})

    response = page(operator, job)

    assert len(response.content) < 100_000
    assert "The beginning of" in response.content.decode()
    assert len(response.context["payloads"]["input"].text) < 4 * SHOWN
    download = operator.get(page_of(job, "payload", "input"))
    assert json.loads(download.content) == {"items": items}
    assert download["Content-Disposition"] == f'attachment; filename="job-{job.pk}-input.json"'


def test_a_secret_stays_hidden_where_the_payload_is_cut(operator):
    secret = "s3cr3t" * 10_000
    job = JobFactory.create(input={"token": secret})

    assert "s3cr3t" not in page(operator, job).content.decode()


@pytest.mark.parametrize("which", ["last_error", "pk", "password", "input2"])
def test_only_payloads_can_be_downloaded(operator, which):
    assert operator.get(page_of(JobFactory.create(), "payload", which)).status_code == 404


def test_a_result_that_is_not_there_yet_cannot_be_downloaded(operator):
    assert operator.get(page_of(JobFactory.create(), "payload", "result")).status_code == 404


@pytest.mark.parametrize("text", ["7", "junk", "..", "%00", "_5F", str(UUID(int=7))])
def test_an_id_that_is_no_jobs_leads_back_to_the_list_and_says_so(operator, text):
    response = operator.get(f"{LIST}{text}/change/", follow=True)

    assert response.redirect_chain == [(LIST, 302)]
    assert "There is no job" in response.content.decode()
    assert operator.get(f"{LIST}{text}/op/cancel/").status_code == 404
    assert operator.get(f"{LIST}{text}/payload/input/").status_code == 404


def test_an_operation_that_does_not_apply_now_is_shown_and_not_a_link(operator):
    job = JobFactory.create(running=True)
    html = page(operator, job).content.decode()

    assert page_of(job, "op", "cancel") in html
    assert page_of(job, "op", "requeue") not in html
    assert 'aria-disabled="true"' in html


# -- versions of the code, and steps that were taken back


def test_a_run_that_waits_for_a_version_says_so_and_not_that_its_name_is_unknown(viewer):
    since = timezone.now() - timedelta(minutes=5)
    job = JobFactory.create(code_version="1", awaited_version="1", unknown_since=since)

    response = page(viewer, job)

    assert response.context["why"] == (
        "Waits for a worker that has version “1” of its code, which began it (since "
        f"{since:%Y-%m-%d %H:%M:%S} UTC). Workers of another version give it back each time."
    )
    assert ("waits for version", "1") in response.context["facts"]


def test_how_a_run_differs_from_its_stored_steps_is_on_its_page_escaped(viewer):
    warning = "New step '<b>pack</b>' ran before step 'ship', which an earlier run had finished."

    html = page(viewer, JobFactory.create(replay_warning=warning)).content.decode()

    assert "The run differs from the steps it had stored." in html
    assert "<b>pack</b>" not in html
    assert "&lt;b&gt;pack&lt;/b&gt;" in html
    plain = page(viewer, JobFactory.create()).content.decode()
    assert "The run differs" not in plain


def given_steps_taken_back(name: str = "charge"):
    job = JobFactory.create(generation=1)
    copies = [
        {"name": name, "seq": 2, "status": "done", "output": {"receipt": 9007199254740993}},
        {"name": "approval", "seq": 3, "status": "waiting", "output": None},
        {"name": "pay", "seq": 4, "status": "done", "output": {"password": "s3cr3t"}},
    ]
    JobAttemptFactory.create(job=job, claim=1, outcome="requeued", message="", steps=copies)
    JobAttemptFactory.create(job=job, claim=2)
    return job


def test_steps_that_were_taken_back_are_on_the_page_with_the_attempt_that_stored_them(operator):
    response = page(operator, given_steps_taken_back())

    newest, oldest = response.context["tries"]
    assert newest.taken_back == ()
    assert oldest.outcome == "requeued from a step"
    assert [(step.seq, step.name, step.output) for step in oldest.taken_back] == [
        ("2", "charge", '{"receipt": 9007199254740993}'),
        ("3", "approval", None),
        ("4", "pay", '{"password": "…"}'),
    ]
    html = response.content.decode()
    assert "Steps that a requeue took back" in html
    assert "s3cr3t" not in html


def test_without_the_permission_their_outputs_are_not_read(viewer):
    job = given_steps_taken_back("<i>charge</i>")

    with CaptureQueriesContext(connection) as captured:
        response = page(viewer, job)

    [oldest] = [each for each in response.context["tries"] if each.taken_back]
    assert {step.output for step in oldest.taken_back} == {None}
    html = response.content.decode()
    assert "9007199254740993" not in html
    assert "<i>charge</i>" not in html
    [read] = [query["sql"] for query in captured if "jsonb_array_elements" in query["sql"]]
    assert "CASE WHEN false" in read


def test_steps_taken_back_by_the_thousand_are_cut(operator):
    job = JobFactory.create()
    copies = [{"name": f"s{n}", "seq": n, "status": "done", "output": n} for n in range(3000)]
    JobAttemptFactory.create(job=job, outcome="requeued", steps=copies)

    [attempt] = page(operator, job).context["tries"]

    assert len(attempt.taken_back) == 200
