"""Looks at the database from outside: on a connection that no fault touches and nobody counts."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import psycopg
from django.apps import apps

from django_durable_jobs import clock
from django_durable_jobs.conf import settings
from django_durable_jobs.drivers.postgres.executor import connect
from django_durable_jobs.states import LIVE_STATES

from .wire import unwatched

PATIENCE: Final = 30.0
"""Seconds until something that neither goes on nor ends is given up."""


@dataclass(frozen=True, slots=True)
class OpenWait:
    """An event that a parked run waits for."""

    job_id: UUID
    step: str
    event: str
    key: str | None


class Observer:
    """One autocommit connection; any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[Any] | None = None

    def ask(self, query: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        with self._lock, unwatched():
            if self._connection is None or self._connection.closed:
                self._connection = connect(settings.DATABASE)
            cursor = self._connection.execute(query, parameters)
            return [] if cursor.description is None else cursor.fetchall()

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    # -- the run

    def live_jobs(self) -> int:
        ((count,),) = self.ask(
            "select count(*) from x_jobs where state = any (%(live)s)", {"live": list(LIVE_STATES)}
        )
        return int(count)

    def open_waits(self) -> list[OpenWait]:
        rows = self.ask(
            "select s.job_id, s.name, f.event, f.key from x_job_steps s join x_jobs j"
            " on j.id = s.job_id and j.state = 'suspended' and not j.is_armed,"
            " lateral (select s.event, s.correlation_key as key union all"
            " select w.event, w.correlation_key from x_job_waits w"
            " where w.job_id = s.job_id and w.step = s.name) f"
            " where s.status = 'waiting' order by s.job_id, s.seq"
        )
        return [OpenWait(*row) for row in rows]

    def next_due(self) -> timedelta | None:
        """How long until something falls due or a lease lapses; None when nothing ever will."""
        ((left,),) = self.ask(
            "select least("
            " (select min(run_at) from x_jobs where not is_armed and state"
            " in ('ready', 'delayed', 'suspended') and run_at < '9999-01-01'),"
            " (select min(lease_expires_at) from x_jobs where state = 'running'))"
            " - (statement_timestamp() + %(shift)s::interval)",
            {"shift": clock.shift()},
        )
        return left if left is None else max(left, timedelta(0))

    def kept_of(self, job_ids: Sequence[UUID]) -> list[str]:
        """What is stored of these jobs that only the claim which holds them may change."""
        rows = self.ask(
            "select format('job %%s %%s claim %%s', id, state, claims) from x_jobs"
            " where id = any (%(ids)s) union all"
            " select format('step ''%%s'' %%s of job %%s', name, status, job_id)"
            " from x_job_steps where job_id = any (%(ids)s) union all"
            " select format('effect ''%%s'' of job %%s (%%s)', effect, job_id, id)"
            " from explorer_effects where job_id = any (%(ids)s)",
            {"ids": list(job_ids)},
        )
        return [line for (line,) in rows]

    # -- the server

    def wait_until_gone(self, pid: int) -> None:
        """Return when the session *pid* has ended, and with it what it held."""
        self._until(
            "select not exists (select from pg_stat_activity where pid = %(pid)s)", {"pid": pid}
        )

    def wait_until_all_gone(self, application: str) -> None:
        """Return when no session of that application name is left."""
        self._until(
            "select not exists (select from pg_stat_activity where application_name = %(name)s)",
            {"name": application},
        )

    def someone_is_blocked(self) -> bool:
        """Whether a session of this database waits for another's lock."""
        ((is_blocked,),) = self.ask(
            "select exists (select from pg_stat_activity where datname = current_database()"
            " and cardinality(pg_blocking_pids(pid)) > 0)"
        )
        return bool(is_blocked)

    def _until(self, query: str, parameters: Mapping[str, Any]) -> None:
        deadline = clock.monotonic() + PATIENCE
        while self.ask(query, parameters) != [(True,)]:
            if clock.monotonic() > deadline:
                raise RuntimeError(f"A session did not end within {PATIENCE:g} s.")

    # -- the tables

    def empty(self) -> None:
        """Forget all jobs and what was noted of them."""
        tables = [
            model._meta.db_table for model in apps.get_app_config("durable_jobs").get_models()
        ]
        # Deleted, since truncating makes each table and index anew; foreign keys are deferred.
        deletes = "".join(f"delete from {name};" for name in [*tables, *OWN_TABLES])  # noqa: S608  own names
        self.ask(f"begin; set constraints all deferred; {deletes} commit")


OWN_TABLES: Final = ("explorer_history", "explorer_effects")

_own: Observer | None = None
_own_lock = threading.Lock()


def own_observer() -> Observer:
    """That of this process, for the notes of bodies."""
    global _own
    with _own_lock:
        if _own is None:
            _own = Observer()
        return _own
