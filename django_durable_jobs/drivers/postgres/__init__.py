"""The store on PostgreSQL: one readable ``.sql`` file per verb.

Verbs run on Django's connection of the calling thread, and so in its transaction.
``for_worker()`` answers the same store on connections of its own.
"""

from __future__ import annotations

from django_durable_jobs.conf import settings

from .claims import Claims
from .executor import DjangoExecutor, Executor, PooledExecutor
from .inserts import Inserts
from .operating import Operating
from .runs import Runs

__all__ = ["DjangoExecutor", "Executor", "PooledExecutor", "PostgresStore"]


class PostgresStore(Inserts, Claims, Runs, Operating):
    """The jobs on PostgreSQL 15 and later, in the tables of this app's migrations."""

    def for_worker(self) -> PostgresStore:
        return PostgresStore(PooledExecutor(settings.DATABASE))
