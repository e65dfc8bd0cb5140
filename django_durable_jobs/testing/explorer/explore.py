"""Runs a flow again and again, disturbed once at each of its statement boundaries."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from django.db import connections

from django_durable_jobs import clock
from django_durable_jobs.conf import settings
from django_durable_jobs.drivers.postgres import PostgresStore
from django_durable_jobs.jobs import JobDefinition
from django_durable_jobs.states import DONE
from django_durable_jobs.store import get_store

from .faults import KILL, WAKES, Fault, plan, read_fault
from .history import TABLES, noted_steps
from .killing import Victims
from .machine import InlineWorker, Stuck, World
from .meetings import Meetings
from .observer import OWN_TABLES, Observer, own_observer
from .report import Explored, Violation, report
from .verdict import Left, Run, differences, history_of, read_left, repeated_steps
from .wire import Boundary, Wire

KILLS: Final = 40
"""Boundaries at which a real process is killed, unless told otherwise."""

Check = Callable[[Run], object]
Progress = Callable[[int, int], object]
"""Told how many runs are done, and of how many."""


@dataclass(frozen=True)
class Flow:
    """A job to explore, with what it needs around it.

    Attributes:
        events: Payloads of the events it waits for, by name; each is published once for
            each wait, with the wait's key, when nothing else is left to do.
        ends: The state it ends in.
        setup: Called before each run; a dict that it answers is added to the input.
        check: Called with each run when it has ended; raises AssertionError if it does not
            like what it sees.
    """

    name: str
    job: JobDefinition[..., Any]
    input: Mapping[str, Any] = field(default_factory=dict)
    events: Mapping[str, Any] = field(default_factory=dict)
    ends: str = DONE
    setup: Callable[[], Mapping[str, Any] | None] | None = None
    check: Check | None = None


def explore_crashes(
    job: JobDefinition[..., Any],
    input: Mapping[str, Any] | None = None,  # noqa: A002  the word of the product
    *,
    check: Check | None = None,
    setup: Callable[[], Mapping[str, Any] | None] | None = None,
    events: Mapping[str, Any] | None = None,
    ends: str = DONE,
    kills: int | None = KILLS,
    seed: int | None = None,
    boundary: int | None = None,
    fault: str | None = None,
) -> Explored:
    """Crash *job* at every statement it sends, and assert that its promises hold each time.

    The job is run once undisturbed. Then it is run from scratch for each statement and
    each fault, and each time the machine goes on until nothing is live: leases lapse,
    retries and sleeps come due, all by moving the clock. Asserted of every run: it ended as
    the undisturbed one did, with the same result, the same effects and the same children;
    no finished step ran again; no claim that was lost changed anything; every parked run
    was woken by what it waited for.

    The jobs' tables are emptied between the runs, so they must be empty at first.

    Args:
        check: What must hold of your own tables after each run; see ``Flow``.
        setup: Makes what each run finds; see ``Flow``.
        events: What the job waits for; see ``Flow``.
        kills: At how many boundaries a real process is killed; None for all of them.
        seed: Of the choice of those boundaries; by chance if omitted.
        boundary: Disturb only there, with only this *fault*: a report's last line.

    Raises:
        AssertionError: A promise did not hold; the message is the report.
        RuntimeError: The database is not one to do this with; the message says why.
        ValueError: No fault has this name.
    """
    flow = Flow(job.name, job, dict(input or {}), dict(events or {}), ends, setup, check)
    with Explorer(kills=kills, seed=seed) as explorer:
        explored = explorer.explore(flow, boundary=boundary, fault=fault)
    if explored.violations:
        raise AssertionError(f"{explored}\n{report(explored.violations)}")
    return explored


class Explorer:
    """Explores flows, one after another, on the jobs' database of this process.

    Args:
        kills: As in ``explore_crashes``.
        is_full: Break a statement that is sent many times in every way each time.
        again: Makes the line that repeats a run from the names of flow and fault and the
            number of the boundary.
    """

    def __init__(
        self,
        *,
        kills: int | None = KILLS,
        seed: int | None = None,
        is_full: bool = False,
        again: Callable[[str, int, str], str] | None = None,
        progress: Progress = lambda done, of: None,
    ) -> None:
        self.seed = random.randrange(2**32) if seed is None else seed
        self._kills = kills
        self._is_full = is_full
        self._again = again or _again
        self._progress = progress
        self._stack = ExitStack()
        self._observer = Observer()

    def __enter__(self) -> Explorer:
        with ExitStack() as stack:
            stack.callback(self._observer.close)
            stack.callback(clock.reset)
            _require_test_database(self._observer)
            self._observer.ask(TABLES)
            stack.callback(self._drop_tables)
            stack.callback(own_observer().close)
            stack.enter_context(noted_steps())
            stack.enter_context(_silence())
            stack.enter_context(_kept_connections())
            self._store = stack.enter_context(closing(get_store().for_worker()))
            self._worker = stack.enter_context(closing(InlineWorker("explorer-1")))
            self._other = stack.enter_context(closing(InlineWorker("explorer-2")))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def explore(
        self, flow: Flow, *, boundary: int | None = None, fault: str | None = None
    ) -> Explored:
        """Run *flow* undisturbed and then with each fault, or only with the one named."""
        explored = Explored(flow.name, self.seed)
        wire = Wire()
        left = self._play(flow, wire, None, explored, None)
        if explored.violations:
            return explored
        only_kills = fault == KILL
        if not only_kills:
            planned = self._plan(flow, wire.passed, left, boundary, fault)
            self._explore_inline(flow, planned, left, explored)
        if only_kills or (fault is None and boundary is None):
            self._explore_kills(flow, boundary, left, explored)
        return explored

    def _plan(
        self,
        flow: Flow,
        passed: Sequence[Boundary],
        left: Left,
        boundary: int | None,
        fault: str | None,
    ) -> list[tuple[Boundary, Fault]]:
        if fault is not None:
            wanted = read_fault(fault)
            return [(each, wanted) for each in passed if boundary in (None, each.number)]
        planned = plan(
            passed,
            has_events=bool(flow.events),
            has_others=left.jobs.total() > 1,
            is_full=self._is_full or boundary is not None,
        )
        return [(each, fault) for each, fault in planned if boundary in (None, each.number)]

    def _explore_inline(
        self,
        flow: Flow,
        planned: Sequence[tuple[Boundary, Fault]],
        undisturbed: Left,
        explored: Explored,
    ) -> None:
        explored.boundaries += len({boundary.number for boundary, _ in planned})
        for done, (boundary, fault) in enumerate(planned, 1):
            with closing(Meetings(self._observer, self._other, flow.events)) as meetings:
                act = None if fault.meeting is None else meetings.acts[fault.meeting]
                wire = Wire(
                    boundary.number,
                    before=act,
                    fault=fault.wire,
                    gone=self._observer.wait_until_gone,
                )
                self._play(flow, wire, str(fault), explored, undisturbed, meetings)
            self._progress(done, len(planned))

    def _play(
        self,
        flow: Flow,
        wire: Wire,
        fault: str | None,
        explored: Explored,
        undisturbed: Left | None,
        meetings: Meetings | None = None,
    ) -> Left:
        """Run the flow from scratch and judge it."""
        job_id = self._begin(flow)
        problems: list[str] = []
        world = self._world(flow)
        if meetings is not None:
            meetings.take_place_in(wire, self._worker, world)
        with wire.tapped():
            try:
                world.go_on()
            except Stuck as error:
                problems.append(str(error))
            finally:
                if meetings is not None:
                    meetings.let_go()
        if meetings is not None:
            problems += meetings.problems
        if wire.trouble is not None:
            raise wire.trouble
        explored.runs += 1
        hit = wire.hit
        return self._judge(flow, job_id, fault, hit, world.missed, problems, explored, undisturbed)

    def _judge(
        self,
        flow: Flow,
        job_id: UUID,
        fault: str | None,
        hit: Boundary | None,
        missed: int,
        problems: list[str],
        explored: Explored,
        undisturbed: Left | None,
    ) -> Left:
        left = read_left(self._observer, job_id)
        notes = history_of(self._observer)
        if undisturbed is None:
            if left.state != flow.ends:
                problems.append(f"The run ended {left.state} ({left.error}), not {flow.ends}.")
        else:
            problems += differences(undisturbed, left)
        problems += repeated_steps(notes)
        if missed:
            statement = "nothing" if hit is None else hit.statement
            explored.missed[statement] += 1
            if fault != KILL and statement not in WAKES:
                problems.append(
                    f"{missed} parked jobs were woken by nothing but the look for missed wakes."
                )
        result = None
        if left.state == DONE and left.result is not None:
            result = flow.job.load_result(left.result)
        if flow.check is not None and not problems:
            try:
                flow.check(Run(job_id, left.state, result, notes))
            except AssertionError as error:
                problems.append(f"The check failed: {error}")
        if problems:
            name = fault or "none"
            again = "" if hit is None else self._again(flow.name, hit.number, name)
            explored.violations.append(
                Violation(flow.name, hit, name, tuple(problems), notes, again)
            )
        return left

    def _explore_kills(
        self, flow: Flow, boundary: int | None, undisturbed: Left, explored: Explored
    ) -> None:
        if self._kills == 0 and boundary is None:
            return
        with closing(Victims(flow.job, flow.events)) as victims:
            count = self._run_victim(flow, victims, None, undisturbed, explored)
            at = [] if boundary is None else [boundary]
            if not at:
                chance = random.Random(f"{self.seed} {flow.name}")
                every = range(1, count + 1)
                most = count if self._kills is None else min(self._kills, count)
                at = sorted(chance.sample(every, most))
            explored.boundaries += len(at)
            for done, number in enumerate(at, 1):
                self._run_victim(flow, victims, number, undisturbed, explored)
                self._progress(done, len(at))

    def _run_victim(
        self, flow: Flow, victims: Victims, at: int | None, undisturbed: Left, explored: Explored
    ) -> int:
        """Let a process run the flow, and go on after its end; how many statements it sent."""
        job_id = self._begin(flow)
        death = victims.run(at)
        self._observer.wait_until_all_gone(victims.application)
        problems: list[str] = []
        clock.reset()
        clock.move(death.shift)
        world = self._world(flow)
        try:
            world.go_on()
        except Stuck as error:
            problems.append(str(error))
        explored.runs += 1
        explored.kills += death.hit is not None
        missed = world.missed + death.missed
        self._judge(flow, job_id, KILL, death.hit, missed, problems, explored, undisturbed)
        return death.statements

    def _world(self, flow: Flow) -> World:
        worker = self._worker
        return World(self._observer, worker, events=flow.events, store=self._store, do=worker.do)

    def _begin(self, flow: Flow) -> UUID:
        clock.reset()
        self._worker.begin()
        self._other.begin()
        self._observer.empty()
        made = flow.setup() if flow.setup is not None else None
        return flow.job.enqueue(**{**flow.input, **(made or {})}).id

    def _drop_tables(self) -> None:
        self._observer.empty()
        for name in OWN_TABLES:
            self._observer.ask(f"drop table {name}")


@contextmanager
def _silence() -> Iterator[None]:
    """Keep the product from logging each fault, all of which are meant."""
    logger = logging.getLogger("django_durable_jobs")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _kept_connections() -> Iterator[None]:
    """Have Django keep its connections from body to body: opening one costs more than a run."""
    database = connections[settings.DATABASE].settings_dict
    kept = {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True}
    before = {key: database[key] for key in kept}
    database.update(kept)
    try:
        yield
    finally:
        database.update(before)


def _again(flow: str, boundary: int, fault: str) -> str:
    return f"explore_crashes(..., boundary={boundary}, fault={fault!r})"


def _require_test_database(observer: Observer) -> None:
    """Refuse a database in which something could be lost.

    Raises:
        RuntimeError: It is not PostgreSQL, holds jobs, or a transaction is open.
    """
    if not isinstance(get_store(), PostgresStore):
        raise RuntimeError(
            "Crashes are explored on PostgreSQL only; DURABLE_JOBS names another driver."
        )
    if connections[settings.DATABASE].in_atomic_block:
        raise RuntimeError(
            "Crashes cannot be explored inside a transaction: other processes would not see the "
            "job. Use TransactionTestCase, or django_db(transaction=True)."
        )
    ((is_used,),) = observer.ask("select exists (select from x_jobs)")
    if is_used:
        raise RuntimeError(
            "The jobs table is not empty, and exploring crashes would empty it. Explore in a test "
            "database, before the test enqueues anything."
        )


__all__ = ["KILLS", "Explorer", "Flow", "explore_crashes"]
