"""A worker process as its supervisor sees it."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django_durable_jobs import __version__, clock
from django_durable_jobs.store.rows import ClaimIdentity, WorkerBeat
from django_durable_jobs.worker.channel import Channel, Holding, Message, named, read


@dataclass(frozen=True, slots=True)
class ChildOptions:
    """How every worker of a tree is started.

    Attributes:
        grace: Seconds that a drain waits for bodies.
        log: Level of its log on standard error, "" to leave logging alone.
    """

    queues: tuple[str, ...]
    slots: int
    grace: float
    burst: bool
    log: str


@dataclass(slots=True)
class Vouched:
    """A claim that is renewed.

    Attributes:
        until: Monotonic time after which it is not; None for no limit.
        renewed_at: Monotonic time of the claim or of the last renewal that landed.
    """

    until: float | None
    renewed_at: float


class Child:
    """A started worker. Its claims are read by the keeper's thread as well.

    Args:
        kept: Called when a message to it found no room.

    Attributes:
        ends_by: Monotonic time by which it should have ended; infinite while it serves.
    """

    def __init__(self, options: ChildOptions, *, kept: Callable[[], object]) -> None:
        self.options = options
        self.worker_id = f"{socket.gethostname()}:{secrets.token_hex(6)}"
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours, may_block=False, kept=kept)
        self.started_at = clock.monotonic()
        self.is_ready = False
        self.ends_by = float("inf")
        self._lock = threading.Lock()
        self._claims: dict[ClaimIdentity, Vouched] = {}
        with theirs:
            self.process = subprocess.Popen(  # noqa: S603  our own interpreter and module
                [
                    sys.executable,
                    "-m",
                    "django_durable_jobs.worker",
                    str(theirs.fileno()),
                    json.dumps(
                        {
                            "worker_id": self.worker_id,
                            "queues": options.queues,
                            "slots": options.slots,
                            "grace": options.grace,
                            "burst": options.burst,
                            "log": options.log,
                        }
                    ),
                ],
                pass_fds=[theirs.fileno()],
                # The paths that manage.py was started with, wherever that was.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path)},
                # Ctrl-C in a terminal reaches the supervisor alone.
                start_new_session=True,
            )
        self.pid = self.process.pid

    def take_in(self, message: Message) -> None:
        """Note what the worker said of its claims."""
        now = clock.monotonic()
        match message["kind"]:
            case "ready":
                self.is_ready = True
            case "holding":
                with self._lock:
                    for holding in read(message["claims"]):
                        until = None if holding.limit is None else now + holding.limit
                        self._claims[self._identity(holding)] = Vouched(until, now)
            case "released":
                with self._lock:
                    for holding in read([*row, None] for row in message["claims"]):
                        self._claims.pop(self._identity(holding), None)

    def claims(self) -> list[ClaimIdentity]:
        """All that it holds, as far as it said."""
        with self._lock:
            return list(self._claims)

    def vouched_claims(self) -> list[ClaimIdentity]:
        """What is to be renewed: nothing of a stopped process, nothing past its limit."""
        if self.is_stopped:
            return []
        now = clock.monotonic()
        with self._lock:
            return [
                identity
                for identity, vouched in self._claims.items()
                if vouched.until is None or vouched.until > now
            ]

    def note_renewed(self, held: Iterable[ClaimIdentity], at: float) -> None:
        """These renewals, sent at monotonic time *at*, landed."""
        with self._lock:
            for identity in held:
                if identity in self._claims:
                    self._claims[identity].renewed_at = at

    def overdue_claims(self, lease_seconds: float) -> list[ClaimIdentity]:
        """Claims whose lease has run out by this process's own measure."""
        now = clock.monotonic()
        with self._lock:
            return [
                identity
                for identity, vouched in self._claims.items()
                if now - vouched.renewed_at > lease_seconds
            ]

    def lose(self, claims: Iterable[ClaimIdentity]) -> None:
        """Tell it that these are not its own any more."""
        claims = list(claims)
        if not claims:
            return
        with self._lock:
            for identity in claims:
                self._claims.pop(identity, None)
        self.channel.send("lost", claims=named(claims))

    @property
    def is_stopped(self) -> bool:
        """Whether the process is stopped by a signal; it could not keep its promises."""
        try:
            state = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        return state is not None

    def beat(self) -> WorkerBeat:
        """Its sign of life."""
        return WorkerBeat(
            worker_id=self.worker_id,
            host=socket.gethostname(),
            pid=self.pid,
            queues=self.options.queues,
            slots=self.options.slots,
            version=__version__,
        )

    def _identity(self, holding: Holding) -> ClaimIdentity:
        return ClaimIdentity(holding.job_id, self.worker_id, holding.claim)
