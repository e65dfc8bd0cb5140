"""Throw a cancelled body out of its thread: the last resort before it is abandoned."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final, TypeVar

T = TypeVar("T")

_raise_in_thread: Final = ctypes.pythonapi.PyThreadState_SetAsyncExc

_TAKERS_OF_LOCKS: Final = frozenset({"__enter__", "acquire", "_acquireLock"})
"""Functions that take a lock which only their caller gives back."""


class BodyInterrupted(BaseException):
    """Raised inside a body that was cancelled and did not end within the kill grace.

    A ``BaseException``, so that ``except Exception`` lets it pass. Let it pass altogether:
    it comes once, and a body that goes on is abandoned.

    A courtesy, for it arrives anywhere: in Python 3.13, at the jump of a loop, even past the
    ``finally`` around that loop in the same function.
    """

    def __init__(self) -> None:
        super().__init__("The attempt was cancelled, and its body did not end by itself.")


class Interruption:
    """The handshake between one attempt's threads and whoever interrupts them.

    An exception raised in a thread from outside arrives between any two of its
    instructions, and late. It may only arrive while the thread is inside the body: in the
    worker's own code it would lose an outcome, in a later body it would hit the wrong job.

    So each thread that enters the body lays down a token, and takes it up again when it
    leaves; who interrupts takes it away first. Whoever gets the token decides: the thread
    leaves and nothing will come, or something comes and the thread waits until it has. A
    lock in the token's place could stay held for ever, by a thread that is interrupted
    right after it got it.
    """

    def __init__(self) -> None:
        # Adding to a list and taking from it are atomic, so they need no lock.
        self._inside: list[_Token] = []
        self._was_interrupted = False

    @property
    def was_interrupted(self) -> bool:
        """Whether a thread of this attempt was; it and its connections are to be retired."""
        return self._was_interrupted

    @property
    def is_inside(self) -> bool:
        """Whether a thread is inside the body and was not interrupted."""
        return bool(self._inside)

    def run(self, body: Callable[[], T]) -> T:
        """Call *body* in this thread, which may be interrupted until this returns.

        Raises:
            BodyInterrupted: It was.
        """
        token = _Token(threading.get_ident())
        self._inside.append(token)
        try:
            return body()
        finally:
            self._leave(token)

    def interrupt(self) -> int:
        """Raise ``BodyInterrupted`` in every thread inside the body; in how many.

        A thread that waits in C code, as in ``time.sleep()``, finds it when it comes back.
        One that waits for a lock in a function that takes it for its caller is left inside,
        for a later call: it would get the lock and be thrown out with it, and nobody could
        take it any more. In Python 3.12 that is how a log record is written, so the lock
        could be that of all logging in this process.
        """
        count = 0
        for token in self._inside.copy():
            if _is_taking_a_lock(token.thread):
                continue
            try:
                self._inside.remove(token)
            except ValueError:
                # It has left meanwhile.
                continue
            self._was_interrupted = True
            _raise_in_thread(ctypes.c_ulong(token.thread), ctypes.py_object(BodyInterrupted))
            token.arrived.release()
            count += 1
        return count

    def _leave(self, token: _Token) -> None:
        # Interrupted in here too, between any two lines, as long as the token is away.
        try:
            self._inside.remove(token)
        except ValueError:
            try:
                token.arrived.acquire()
                # Take back one that is on its way yet; none may reach the settling.
                _raise_in_thread(ctypes.c_ulong(token.thread), None)
            except BodyInterrupted:
                return
        except BodyInterrupted:
            return


class _Token:
    """One thread's stay inside the body.

    Attributes:
        arrived: Free once the exception was handed to the thread.
    """

    def __init__(self, thread: int) -> None:
        self.thread = thread
        self.arrived = threading.Lock()
        self.arrived.acquire()


def current_frames() -> dict[int, FrameType]:
    """Where each thread of this process stands, by its number.

    Asked so that it comes to an end: a garbage collection inside of it, which its own
    memory may set off, waits in Python 3.11 for a lock that it holds itself.
    """
    with _asking:
        is_collecting = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames()
        finally:
            if is_collecting:
                gc.enable()


_asking: Final = threading.Lock()


def _is_taking_a_lock(thread: int) -> bool:
    frame = current_frames().get(thread)
    return frame is not None and frame.f_code.co_name in _TAKERS_OF_LOCKS
