"""Counts that stop counting: a page says "10,000+" and never waits for the exact number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.db import connections
from django.db.models import Q
from django.utils.formats import number_format

from django_durable_jobs import states

CAP: Final = 10_000


class AtLeast(int):
    """A number that prints as ``10,000+`` wherever a template or a message shows it."""

    def __str__(self) -> str:
        return f"{number_format(int(self), use_l10n=True, force_grouping=True)}+"

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return str(self)


def capped(count: int) -> int:
    """Return *count*, or "at least ``CAP``" for one above it."""
    return AtLeast(CAP) if count > CAP else count


def in_state(state: str) -> Q:
    """Return the condition for jobs in *state*, in words that the partial indexes know.

    Waiting jobs stand either in the claim's index or in that of jobs due later; said so,
    the planner need not walk the whole table for a handful of rows.
    """
    if state in states.WAITING_STATES:
        somewhere = Q(is_armed=True) | Q(is_armed=False, state__in=states.WAITING_STATES)
        return Q(state=state) & somewhere
    return Q(state=state)


def count_by_state(alias: str, wanted: Sequence[str] = states.STATES) -> dict[str, int]:
    """Count the jobs of each state, up to ``CAP`` for each, in one statement."""
    waiting = ", ".join("%s" for _ in states.WAITING_STATES)
    parts: list[str] = []
    params: list[str | int] = []
    for state in wanted:
        where = "state = %s"
        params += [state, state]
        if state in states.WAITING_STATES:
            where += f" AND (is_armed OR (NOT is_armed AND state IN ({waiting})))"
            params += states.WAITING_STATES
        params.append(CAP + 1)
        # A literal state in each part lets each ride its own partial index.
        parts.append(
            f"SELECT %s AS state, (SELECT count(*) FROM (SELECT 1 FROM x_jobs WHERE {where}"  # noqa: S608 - built from constants only
            " LIMIT %s) AS capped) AS jobs"
        )
    with connections[alias].cursor() as cursor:
        cursor.execute(" UNION ALL ".join(parts), params)
        return {state: capped(count) for state, count in cursor.fetchall()}


@dataclass(frozen=True, slots=True)
class VersionWait:
    """Runs of one job that wait for a worker with another version of its code."""

    version: str
    name: str
    count: int


def count_version_waits(alias: str) -> list[VersionWait]:
    """Count the runs that wait for a version, by version and name, up to ``CAP`` of all."""
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "SELECT awaited_version, name, count(*) FROM (SELECT awaited_version, name FROM x_jobs"
            " WHERE awaited_version <> '' AND state = %s LIMIT %s) AS capped"
            " GROUP BY awaited_version, name ORDER BY awaited_version, name",
            [states.READY, CAP + 1],
        )
        found = cursor.fetchall()
    is_cut = sum(count for _, _, count in found) > CAP
    return [
        VersionWait(version, name, AtLeast(count) if is_cut else count)
        for version, name, count in found
    ]
