"""Four questions about one match have one answer, whatever the wait and the event."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Final
from uuid import UUID

import pytest

from django_durable_jobs import states
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.rows import ClaimIdentity, EventFilter, StepRow

from .given import (
    TTL,
    Clock,
    claim,
    enqueue,
    found,
    park_unlooked,
    publish,
    put_wait,
    refuse_found,
    settle,
    shown,
)

RUNS: Final = 12
ACTS: Final = 60
SEEDS: Final = range(10)

NAMES: Final = ("approved", "refunded")
KEYS: Final = (None, None, "7", "8")


@dataclass
class Story:
    """Runs that begin waits and refuse events while others are published.

    Attributes:
        goes_back: Whether the clock does, which owes a wait events in front of its cursor.
            Then none expires: what is purged does not come back to life.
        events: In the order of their publishing.
        waits: The open wait of each run that has one.
    """

    random: Random
    identities: list[ClaimIdentity]
    goes_back: bool
    events: list[UUID] = field(default_factory=list)
    waits: dict[UUID, StepRow] = field(default_factory=dict)

    def found(self, store: JobStore) -> dict[UUID, UUID | None]:
        """The event that the wait of each job would take."""
        return {job_id: found(store, wait) for job_id, wait in self.waits.items()}

    def taken(self, store: JobStore) -> list[int | None]:
        """The same by place: of the run among the runs, of the event among the events."""
        found = self.found(store)
        ids = [found.get(identity.job_id) for identity in self.identities]
        return [None if each is None else self.events.index(each) for each in ids]


def begun(store: JobStore, seed: int) -> Story:
    """Some of the runs enqueued after an event for all of them."""
    random = Random(seed)
    ids = [enqueue(store) for _ in range(RUNS // 2)]
    event_id = publish(store)
    ids += [enqueue(store) for _ in range(RUNS - len(ids))]
    claims = {job.identity.job_id: job.identity for job in claim(store, RUNS)}
    identities = [claims[job_id] for job_id in ids]
    return Story(random, identities, random.random() < 0.5, [event_id])


def told(store: JobStore, clock: Clock, seed: int) -> Story:
    """A whole story; its runs are still running."""
    story = begun(store, seed)
    for _ in range(ACTS):
        act = story.random.choices(
            [begin_a_wait, publish_one, refuse_one, move], weights=[4, 4, 2, 1]
        )[0]
        act(story, store, clock)
    return story


def begin_a_wait(story: Story, store: JobStore, clock: Clock) -> None:
    identity = story.random.choice(story.identities)
    filters = [
        EventFilter(story.random.choice(NAMES), story.random.choice(KEYS))
        for _ in range(story.random.choice([1, 1, 2, 3]))
    ]
    since_run = story.random.random() < 0.3
    if identity.job_id in story.waits:
        return
    story.waits[identity.job_id] = put_wait(
        store,
        identity,
        event=filters[0].event,
        correlation_key=filters[0].key,
        alternatives=tuple(filters[1:]),
        since_run=since_run,
    )


def publish_one(story: Story, store: JobStore, clock: Clock) -> None:
    to = story.random.choice(story.identities).job_id if story.random.random() < 0.4 else None
    event_id = publish(
        store,
        story.random.choice(NAMES),
        key=story.random.choice(KEYS),
        ttl=story.random.choice([TTL, TTL if story.goes_back else timedelta(minutes=7)]),
        job_id=to,
    )
    story.events.append(event_id)


def refuse_one(story: Story, store: JobStore, clock: Clock) -> None:
    identity = story.random.choice(story.identities)
    wait = story.waits.get(identity.job_id)
    if wait is not None and found(store, wait) is not None:
        story.waits[identity.job_id] = refuse_found(store, identity, wait)


def move(story: Story, store: JobStore, clock: Clock) -> None:
    clock.advance(minutes=story.random.choice([-5 if story.goes_back else 5, 5, 10]))


class TestAgreement:
    @pytest.mark.parametrize("seed", SEEDS)
    def test_a_look_wakes_exactly_those_whose_wait_finds_an_event(
        self, store: JobStore, clock: Clock, seed: int
    ) -> None:
        story = told(store, clock, seed)
        has_event = {job_id: each is not None for job_id, each in story.found(store).items()}
        looked = {job_id for job_id in has_event if story.random.random() < 0.5}
        for identity in story.identities:
            park_unlooked(store, identity)

        by_look = store.wake_waiters(looked)
        by_last_resort = store.wake_missed(limit=RUNS)

        assert {job_id: shown(store, job_id).is_armed for job_id in has_event} == has_event
        answered = {job_id for job_id, is_found in has_event.items() if is_found}
        assert (by_look, by_last_resort) == (len(answered & looked), len(answered - looked))

    @pytest.mark.parametrize("seed", SEEDS)
    def test_a_publish_wakes_exactly_those_whose_wait_finds_its_event(
        self, store: JobStore, clock: Clock, seed: int
    ) -> None:
        story = told(store, clock, seed)
        for identity in story.identities:
            waits = identity.job_id in story.waits
            assert settle(store, identity, states.SUSPENDED, give_back=True, waits=waits)
        asleep = [job_id for job_id in story.waits if not shown(store, job_id).is_armed]

        for _ in range(12):
            publish_one(story, store, clock)
            has_event = {job_id: found(store, story.waits[job_id]) is not None for job_id in asleep}
            assert {job_id: shown(store, job_id).is_armed for job_id in asleep} == has_event

    def test_the_stories_hold_both_answers(self, store: JobStore, clock: Clock) -> None:
        """Or the two tests above would say nothing."""
        answers = [
            each is not None
            for seed in SEEDS
            for each in told(store, clock, seed).found(store).values()
        ]

        assert {True, False} == set(answers)
