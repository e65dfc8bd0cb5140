"""What a worker and its supervisor say to one another, one JSON object per line.

A socket pair for each worker, and nothing shared among them: its end of file is the
other side's death, and a worker killed in mid-sentence harms nobody else.

From the worker: ``ready``, ``holding`` (claims whose bodies have not started),
``released``, ``due`` (a job of its own waits so many seconds). From the supervisor: ``wake``,
``rescue``, ``lost`` (claims), ``drain`` (with seconds of grace), ``stop``.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django_durable_jobs.store.rows import ClaimIdentity

_CHUNK: Final = 65_536

Message = dict[str, Any]


class Channel:
    """One end. Any thread may send; one thread receives.

    Args:
        may_block: Sending waits for room, as a worker must that may not start a body before
            its claim was told. Without it what finds no room is kept, so that a worker
            which is stopped cannot stop its supervisor; nor does receiving wait.
        kept: Called when a message found no room, by the thread that sent it: somebody has
            to ``flush`` once there is some.
    """

    def __init__(
        self,
        end: socket.socket,
        *,
        may_block: bool = True,
        kept: Callable[[], object] = lambda: None,
    ) -> None:
        self._socket = end
        self._kept = kept
        self._flags = 0 if may_block else socket.MSG_DONTWAIT
        self._lock = threading.Lock()
        self._outgoing = bytearray()
        self._hints: dict[str, None] = {}
        self._incoming = bytearray()
        self.is_open = True

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def has_outgoing(self) -> bool:
        """Whether something is kept that found no room."""
        return bool(self._outgoing)

    def send(self, kind: str, **fields: Any) -> bool:
        """Send a message; False when the other end is gone."""
        line = _line({"kind": kind, **fields})
        # Whole lines, or two threads' messages would run into each other.
        with self._lock:
            self._outgoing += line
            is_heard = self._flush()
        if self._outgoing:
            self._kept()
        return is_heard

    def hint(self, kind: str) -> None:
        """Send a message that need not come twice: once there is room, however often asked."""
        with self._lock:
            self._hints[kind] = None
            self._flush()
        if self._outgoing:
            self._kept()

    def flush(self) -> bool:
        """Send what was kept, as far as there is room now."""
        with self._lock:
            return self._flush()

    def _flush(self) -> bool:
        try:
            while self._outgoing or self._hints:
                if not self._outgoing:
                    self._outgoing += b"".join(_line({"kind": kind}) for kind in self._hints)
                    self._hints.clear()
                sent = self._socket.send(self._outgoing, self._flags)
                del self._outgoing[:sent]
        except BlockingIOError:
            return True
        except OSError:
            # Nobody is there to hear it; what was said before the end can still be received.
            self._outgoing.clear()
            self._hints.clear()
            return False
        return True

    def receive(self) -> list[Message]:
        """Read what has come, waiting for something; empty and closed at the end of file."""
        return self._messages(self._read(self._flags) or b"")

    def receive_rest(self) -> list[Message]:
        """Read all that has come and wait for nothing: the other end is known to be dead."""
        messages: list[Message] = []
        while chunk := self._read(socket.MSG_DONTWAIT):
            messages += self._messages(chunk)
        return messages

    def _read(self, flags: int) -> bytes | None:
        """What is there; None if nothing is yet, empty at the end of file."""
        try:
            chunk = self._socket.recv(_CHUNK, flags)
        except BlockingIOError:
            return None
        except ConnectionError:
            chunk = b""
        if not chunk:
            self.is_open = False
        return chunk

    def _messages(self, chunk: bytes) -> list[Message]:
        """The messages that *chunk* completes."""
        self._incoming += chunk
        end = self._incoming.rfind(b"\n", len(self._incoming) - len(chunk)) + 1
        lines = bytes(self._incoming[:end]).splitlines()
        del self._incoming[:end]
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        self.is_open = False
        self._socket.close()


def _line(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Holding:
    """A claim that the supervisor is asked to renew.

    Attributes:
        limit: Seconds after which it must not be renewed any more; None for no limit.
    """

    job_id: UUID
    claim: int
    limit: float | None


def written(claims: Iterable[Holding]) -> list[list[Any]]:
    """The claims as a message carries them."""
    return [[claim.job_id.hex, claim.claim, claim.limit] for claim in claims]


def read(rows: Iterable[list[Any]]) -> list[Holding]:
    """The claims of a message."""
    return [Holding(UUID(hex=row[0]), row[1], row[2]) for row in rows]


def named(claims: Iterable[ClaimIdentity]) -> list[list[Any]]:
    """Only which claims, as ``released`` and ``lost`` carry them."""
    return [[claim.job_id.hex, claim.claim] for claim in claims]
