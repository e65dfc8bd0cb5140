"""Steps two connections through one interleaving: one is seen to wait for the other's lock."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from django.db import connection

from django_durable_jobs.clock import monotonic
from django_durable_jobs.drivers.postgres import PostgresStore

# Real commits, since the connections must see one another's.
REAL = pytest.mark.django_db(transaction=True, available_apps=["django_durable_jobs"])

PATIENCE = 20
"""Seconds until an act that neither waits nor ends is given up."""


class Stepped(PostgresStore):
    """A publisher whose look after the commit comes when the test says so."""

    look = None

    def _wake_after_commit(self, event, woken):
        self.look = lambda: super(Stepped, self)._wake_after_commit(event, woken)


def waits_for_a_lock(act: Future[Any]) -> bool:
    """Whether *act*, which runs in another thread, is stopped by a lock before it ends."""
    deadline = monotonic() + PATIENCE
    while not act.done() and monotonic() < deadline:
        with connection.cursor() as cursor:
            cursor.execute(
                "select exists (select from pg_stat_activity where datname = current_database()"
                " and cardinality(pg_blocking_pids(pid)) > 0)"
            )
            if cursor.fetchone() == (True,):
                return True
    return False
