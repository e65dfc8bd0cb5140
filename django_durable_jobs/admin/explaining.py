"""One sentence on each job's page: why it is where it is, and what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.utils.translation import gettext, ngettext

from django_durable_jobs import states
from django_durable_jobs.conf import settings
from django_durable_jobs.models import Job, JobPause, JobStep

from .times import aware, duration, exact, is_endless, relative


def explain(job: Job, steps: Sequence[dict[str, Any]], now: datetime) -> str:
    """Return the sentence for *job*; asks the database only about the pause of its queue."""
    if job.state in (states.READY, states.DELAYED):
        return _explain_waiting(job, now)
    if job.state == states.RUNNING:
        return _explain_running(job, now)
    if job.state == states.SUSPENDED:
        return _explain_suspended(job, steps, now)
    if job.state in states.FINISHED_STATES:
        return _explain_finished(job, now)
    return gettext(
        "This version of the software does not know the state “%(state)s”; a newer one wrote it."
    ) % {"state": job.state}


def _explain_waiting(job: Job, now: datetime) -> str:
    if job.awaited_version:
        sentence = gettext(
            "Waits for a worker that has version “%(version)s” of its code, which began it"
        ) % {"version": job.awaited_version}
        if job.unknown_since is not None:
            sentence += gettext(" (since %(exact)s)") % {"exact": exact(job.unknown_since)}
        return sentence + gettext(". Workers of another version give it back each time.")
    if job.unknown_since is not None:
        return gettext(
            "No worker that took it knows a job named “%(name)s” (since %(exact)s). Deploy the "
            "code that declares it: until then it is given back each time."
        ) % {"name": job.name, "exact": exact(job.unknown_since)}
    if job.family_id is not None and is_endless(job.run_at):
        return gettext(
            "Held back: step “%(step)s” of its parent bounds how many of its children run at once, "
            "and this one starts when a sibling has ended."
        ) % {"step": job.parent_step}
    if aware(job.run_at) > now:
        due = {"due": relative(job.run_at, now), "exact": exact(job.run_at)}
        if job.state == states.READY and job.attempt:
            return gettext(
                "Attempt %(n)d of %(most)d failed; the next one is due %(due)s (%(exact)s)."
            ) % {"n": job.attempt, "most": job.max_attempts, **due}
        return gettext("Due %(due)s (%(exact)s).") % due
    pauses = JobPause.objects.using(settings.DATABASE)
    pause = pauses.filter(kind="queue", name=job.queue).first()
    if pause is not None:
        return gettext(
            "Waits because queue “%(queue)s” is paused (by %(by)s, %(when)s): %(why)s"
        ) % {
            "queue": job.queue,
            "by": pause.paused_by or "?",
            "when": relative(pause.paused_at, now),
            "why": pause.reason or gettext("no reason was given"),
        }
    return gettext("Due since %(exact)s; waits for a free worker of queue “%(queue)s”.") % {
        "exact": exact(job.run_at),
        "queue": job.queue,
    }


def _explain_running(job: Job, now: datetime) -> str:
    worker = job.worker_id or "?"
    if job.lease_expires_at is None:
        return gettext("Runs on worker %(worker)s.") % {"worker": worker}
    left = aware(job.lease_expires_at) - now
    if left.total_seconds() < 0:
        return gettext(
            "Worker %(worker)s has not been heard of; its lease ended %(span)s ago, and another "
            "worker takes the job over."
        ) % {"worker": worker, "span": duration(left)}
    return gettext(
        "Attempt %(n)d of %(most)d runs on worker %(worker)s, which holds it for another %(span)s "
        "and renews that while it lives."
    ) % {
        "n": job.attempt,
        "most": job.max_attempts,
        "worker": worker,
        "span": duration(left),
    }


def _explain_suspended(job: Job, steps: Sequence[dict[str, Any]], now: datetime) -> str:
    waiting = [step for step in steps if step["status"] == JobStep.Status.WAITING]
    if waiting:
        step = waiting[-1]
        sentence = gettext("Step “%(step)s” waits for the event “%(event)s”") % {
            "step": step["name"],
            "event": step["event"],
        }
        if step["correlation_key"] is not None:
            sentence += gettext(" with key “%(key)s”") % {"key": step["correlation_key"]}
        if step["alternatives"]:
            others = len(step["alternatives"])
            sentence += ngettext(" or for another one", " or for one of %(n)d others", others) % {
                "n": others
            }
        sentence += gettext(" since %(exact)s") % {"exact": exact(step["started_at"])}
        if is_endless(step["wake_at"]):
            return sentence + gettext(", for as long as it takes.")
        return sentence + gettext("; it stops waiting %(due)s (%(exact)s).") % {
            "due": relative(step["wake_at"], now),
            "exact": exact(step["wake_at"]),
        }
    sleeping = [step for step in steps if step["status"] == JobStep.Status.SLEEPING]
    if sleeping and not is_endless(sleeping[-1]["wake_at"]):
        step = sleeping[-1]
        return gettext("Step “%(step)s” sleeps; it wakes %(due)s (%(exact)s).") % {
            "step": step["name"],
            "due": relative(step["wake_at"], now),
            "exact": exact(step["wake_at"]),
        }
    calling = [step for step in steps if step["status"] == JobStep.Status.CALLING]
    if calling:
        step = calling[-1]
        return ngettext(
            "Step “%(step)s” waits for the end of its child job.",
            "Step “%(step)s” waits for the end of its %(n)d child jobs.",
            step["children"] or 1,
        ) % {"step": step["name"], "n": step["children"] or 1}
    if is_endless(job.run_at):
        return gettext("Parked until something wakes it.")
    return gettext("Parked; due %(due)s (%(exact)s).") % {
        "due": relative(job.run_at, now),
        "exact": exact(job.run_at),
    }


def _explain_finished(job: Job, now: datetime) -> str:
    when = relative(job.finished_at, now) if job.finished_at else gettext("some time ago")
    if job.state == states.DONE:
        return gettext("Finished %(when)s.") % {"when": when}
    if job.state == states.CANCELLED:
        sentence = gettext("Cancelled %(when)s. It will not run again unless somebody retries it.")
    else:
        sentence = gettext(
            "Gave up %(when)s after %(n)d of %(most)d attempts. Nothing happens until somebody "
            "retries it."
        )
    sentence %= {"when": when, "n": job.attempt, "most": job.max_attempts}
    return f"{sentence} {job.stop_reason}".rstrip()
