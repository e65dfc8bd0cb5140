"""States as coloured labels; the word always stands beside the colour."""

from __future__ import annotations

from django.utils.html import format_html
from django.utils.safestring import SafeString

from django_durable_jobs.models import Job, JobStep

# Steps borrow the colours of the job states that mean the same.
_STEP_COLOURS = {
    "done": "done",
    "sleeping": "delayed",
    "waiting": "suspended",
    "calling": "suspended",
    "timed_out": "failed",
    "failed": "failed",
}


def state_label(state: str) -> str:
    """Return the word for a state; one that a newer version wrote stands for itself."""
    return str(Job.State(state).label) if state in Job.State.values else state


def state_badge(state: str) -> SafeString:
    colour = state if state in Job.State.values else "unknown"
    return _badge(colour, state_label(state))


def step_badge(status: str) -> SafeString:
    known = status in JobStep.Status.values
    label = str(JobStep.Status(status).label) if known else status
    return _badge(_STEP_COLOURS.get(status, "unknown"), label)


def step_colour(status: str) -> str:
    return _STEP_COLOURS.get(status, "unknown")


def _badge(colour: str, label: str) -> SafeString:
    return format_html('<span class="ddj-badge ddj-{}">{}</span>', colour, label)
