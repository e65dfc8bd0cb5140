"""Durable background jobs for Django on the project's own PostgreSQL.

::

    from django_durable_jobs import JobContext, job

    @job
    def greet(ctx: JobContext, name: str) -> str:
        return f"Hello {name}"

    greet.enqueue(name="Ann")

Every name below is public, and so are the modules ``admin``, ``clock``, ``operations``,
``store`` (for drivers) and ``testing``, and the model ``models.Job``; those that the names
below live in are not. Safe to import before the apps are loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from . import exceptions, signals, states

__version__: Final = "0.1.0"

if TYPE_CHECKING:
    from .events import Event, publish_event
    from .jobs import JobDefinition, JobResult, job
    from .policies.retry import Retry
    from .settle import Settled
    from .steps import AsyncJobContext, JobContext

# Imported at first use: a settings module or an AppConfig may import this package.
_HOMES: Final = {
    "AsyncJobContext": "steps",
    "Event": "events",
    "JobContext": "steps",
    "JobDefinition": "jobs",
    "JobResult": "jobs",
    "Retry": "policies.retry",
    "Settled": "settle",
    "job": "jobs",
    "publish_event": "events",
}

__all__ = [
    "AsyncJobContext",
    "Event",
    "JobContext",
    "JobDefinition",
    "JobResult",
    "Retry",
    "Settled",
    "exceptions",
    "job",
    "publish_event",
    "signals",
    "states",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
