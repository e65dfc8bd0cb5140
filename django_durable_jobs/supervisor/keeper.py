"""Keep leases alive, look at the store for workers that are idle, and keep house in it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Final

from django_durable_jobs import clock
from django_durable_jobs.exceptions import StoreUnavailable
from django_durable_jobs.lifecycle.backoff import Backoff
from django_durable_jobs.store.port import JobStore
from django_durable_jobs.store.rows import Wake

from .child import Child

logger = logging.getLogger("django_durable_jobs.supervisor")

ARMED_AT_MOST: Final = 1_000
FIRST_POLL: Final = 0.25
PROBE_WITH_WAKE: Final = 30.0
"""Seconds between looks at the store while the wakes are proven to arrive."""

MISSED_EVERY: Final = 900.0
"""Seconds between looks for parked jobs whose wake was lost with its process."""

MISSED_AT_MOST: Final = 1_000

TIDY_EVERY: Final = 900.0
"""Seconds between looks for expired events, and for waits that finished jobs left open."""

TIDIED_AT_MOST: Final = 1_000

NEVER: Final = float("inf")


class Keeper:
    """One thread with its duties, each when it is due: renew, probe, arm, wake, tidy.

    Renewal comes every third of the lease. A look at the store comes rarely while wakes
    are proven to arrive, else with pauses that grow up to ``POLL_MAX`` while it finds
    nothing. What falls due or lapses at a known time gets its own timer, so neither waits
    for a look.
    """

    def __init__(
        self,
        store: JobStore,
        *,
        queues: Collection[str],
        lease: timedelta,
        poll_max: timedelta,
        children: Callable[[], Sequence[Child]],
        wake: Callable[[], None],
        rescue: Callable[[], None],
        is_wake_proven: Callable[[], bool],
    ) -> None:
        self._store = store
        self._queues = queues
        self._lease = lease
        self._poll_max = poll_max.total_seconds()
        self._children = children
        self._wake = wake
        self._rescue = rescue
        self._is_wake_proven = is_wake_proven
        self._changed = threading.Condition()
        self._is_stopping = False
        self._poll = FIRST_POLL
        self._renew_at = clock.monotonic()
        self._probe_at = clock.monotonic()
        self._arm_at = NEVER
        self._arm_not_before = clock.monotonic()
        self._arm_pauses = Backoff(first=0.1, longest=5)
        self._rescue_at = NEVER
        self._missed_at = clock.monotonic() + MISSED_EVERY
        self._tidy_at = clock.monotonic() + TIDY_EVERY
        self._gone: list[Child] = []
        self._backoff = Backoff(first=0.2, longest=5)
        self._thread = threading.Thread(target=self._serve, name="keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """End after the duty under way; the workers' rows are dropped."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join(timeout)

    def due_in(self, seconds: float) -> None:
        """Something falls due in so many seconds."""
        with self._changed:
            self._arm_at = min(self._arm_at, clock.monotonic() + seconds)
            self._changed.notify()

    def heard(self, wakes: Sequence[Wake]) -> None:
        """Wakes arrived; those due later set a timer."""
        for wake in wakes:
            if wake.queue in self._queues and wake.due_in > 0:
                self.due_in(wake.due_in)
        if any(wake.queue in self._queues and wake.due_in <= 0 for wake in wakes):
            self._wake()

    def look(self) -> None:
        """Look at the store now."""
        with self._changed:
            self._probe_at = clock.monotonic()
            self._changed.notify()

    def register(self) -> None:
        """A worker is ready: record that it lives now, and not at the next renewal."""
        with self._changed:
            self._renew_at = clock.monotonic()
            self._changed.notify()

    def bury(self, child: Child) -> None:
        """*child* is dead: end its leases and have them rescued."""
        with self._changed:
            self._gone.append(child)
            self._changed.notify()

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._is_stopping and not self._gone and self._next() > 0:
                    self._changed.wait(min(self._next(), PROBE_WITH_WAKE))
                if self._is_stopping and not self._gone:
                    return
            try:
                self.tick()
            except StoreUnavailable as error:
                if self._backoff.is_fresh:
                    logger.warning("jobs.store.waiting: %s", error)
                self._rest(self._backoff.wait())
            except Exception:
                # The leases of everything that runs hang on this thread.
                logger.exception("jobs.keeper.failed")
                self._rest(self._backoff.wait())
            else:
                if not self._backoff.is_fresh:
                    logger.warning("jobs.store.back: the jobs database answers again.")
                self._backoff.reset()

    def _next(self) -> float:
        soonest = min(
            self._renew_at,
            self._probe_at,
            self._arm_at,
            self._rescue_at,
            self._missed_at,
            self._tidy_at,
        )
        return soonest - clock.monotonic()

    def _rest(self, seconds: float) -> None:
        self.tell_overdue()
        with self._changed:
            if not self._is_stopping:
                self._changed.wait(seconds)
            elif self._gone:
                # Ending without a database: their leases lapse by themselves.
                self._gone.clear()

    def tick(self) -> float:
        """Do each duty that is due, once; seconds until one is due again.

        Raises:
            StoreUnavailable: What was left undone is due still.
        """
        now = clock.monotonic()
        # First what the others' jobs hang on.
        if self._renew_at <= now:
            self._renew(now)
        if self._gone:
            self._let_lapse()
        if self._arm_at <= now:
            self._arm()
        if self._rescue_at <= now:
            self._rescue_at = NEVER
            self._rescue()
        if self._probe_at <= now:
            self._probe()
        # Last what can wait, and reads the most: when it fails, all else was done.
        if self._missed_at <= now:
            self._wake_missed()
        if self._tidy_at <= now:
            self._tidy()
        return self._next()

    def _let_lapse(self) -> None:
        with self._changed:
            gone = list(self._gone)
        for child in gone:
            self._store.lapse(child.claims())
        self._store.forget_workers([child.worker_id for child in gone])
        with self._changed:
            self._gone = [child for child in self._gone if child not in gone]
        self._rescue()

    def _renew(self, now: float) -> None:
        """Renew what the workers hold. One renewal that fails is a warning, not a loss."""
        children = self._children()
        held = {child: child.vouched_claims() for child in children}
        beats = [child.beat() for child in children if child.is_ready and not child.is_stopped]
        self._renew_at = now + self._lease.total_seconds() / 3
        claims = [identity for identities in held.values() for identity in identities]
        if not claims and not beats:
            return
        try:
            renewal = self._store.renew(claims, lease=self._lease, beats=beats)
        except BaseException:
            self._renew_at = now
            raise
        for child in children:
            child.note_renewed(
                (identity for identity in held[child] if identity in renewal.held), now
            )
            child.lose(identity for identity in held[child] if identity in renewal.lost)
        self.tell_overdue()

    def tell_overdue(self) -> None:
        """Tell the workers which leases were not renewed for their whole length.

        Another worker may have those jobs by now. Any thread may call.
        """
        for child in self._children():
            child.lose(child.overdue_claims(self._lease.total_seconds()))

    def _arm(self) -> None:
        self._arm_at = NEVER
        armed = self._store.arm(limit=ARMED_AT_MOST)
        if armed:
            self._wake()
            self._arm_pauses.reset()
        else:
            # What is due is locked by somebody, or another supervisor was faster.
            self._arm_not_before = clock.monotonic() + self._arm_pauses.wait()
        if armed == ARMED_AT_MOST:
            self._arm_at = clock.monotonic()
        else:
            # What falls due after these is known only by looking.
            self._probe_at = clock.monotonic()

    def _wake_missed(self) -> None:
        woken = self._store.wake_missed(limit=MISSED_AT_MOST)
        if woken:
            self._wake()
        is_more = woken == MISSED_AT_MOST
        self._missed_at = clock.monotonic() + (0.0 if is_more else MISSED_EVERY)

    def _tidy(self) -> None:
        moved = (
            self._store.purge_events(limit=TIDIED_AT_MOST),
            self._store.set_waits_aside(limit=TIDIED_AT_MOST),
        )
        # One batch of each in a round: the renewals have their turn in between.
        self._tidy_at = clock.monotonic() + (0.0 if TIDIED_AT_MOST in moved else TIDY_EVERY)

    def _probe(self) -> None:
        probe = self._store.probe(self._queues)
        now = clock.monotonic()
        if probe.queues:
            self._wake()
            self._poll = FIRST_POLL
        else:
            self._poll = min(self._poll * 2, self._poll_max)
        if probe.due_in is None or probe.due_in > 0:
            self._arm_pauses.reset()
            self._arm_not_before = now
        if probe.due_in is not None:
            due_at = max(now + probe.due_in, self._arm_not_before)
            self._arm_at = min(self._arm_at, due_at)
        if probe.lapse_in is not None:
            # Just behind it, so that the lease has lapsed when the rescue looks.
            self._rescue_at = now + max(probe.lapse_in, 0.0) + 0.05
        else:
            self._rescue_at = NEVER
        self._probe_at = now + self._pause()

    def _pause(self) -> float:
        if not self._is_wake_proven():
            return self._poll
        # A claim of another machine is seen before its lease can lapse.
        return min(PROBE_WITH_WAKE, max(self._lease.total_seconds() / 2, self._poll))
