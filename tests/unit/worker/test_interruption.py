"""An exception thrown into a thread reaches the body it was meant for, and nothing else."""

from __future__ import annotations

import gc
import logging
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from django_durable_jobs.worker import interruption as module
from django_durable_jobs.worker.interruption import BodyInterrupted, Interruption, current_frames
from tests.acceptance.conditions import until

PATIENCE = 20


# Bodies here say that they have begun by a list, which is one instruction: an exception that
# arrives inside threading's own locks makes these raise what they like.


class Slot(threading.Thread):
    """A thread that runs a body and then goes on with code of its own."""

    def __init__(self, interruption: Interruption, body: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._interruption = interruption
        self._body = body
        self.value: Any = None
        self.error: BaseException | None = None
        self.late_error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            try:
                self.value = self._interruption.run(self._body)
            except BodyInterrupted as error:
                self.error = error
            # Many instructions, at each of which one that is under way would arrive.
            for number in range(2_000):
                str(number)
        except BaseException as error:
            self.late_error = error

    def end(self) -> Slot:
        self.join(PATIENCE)
        assert not self.is_alive()
        return self


def test_a_body_that_asks_nobody_is_thrown_out_of_its_thread():
    interruption = Interruption()
    begun: list[int] = []

    def body() -> None:
        begun.append(1)
        try:
            spin_for_ever()
        except Exception:
            raise AssertionError("It must pass by here.") from None

    slot = Slot(interruption, body)
    until(lambda: begun, seconds=PATIENCE, every=0.001)

    assert interruption.interrupt() == 1
    assert isinstance(slot.end().error, BodyInterrupted)
    assert str(slot.error) == "The attempt was cancelled, and its body did not end by itself."
    assert (slot.late_error, interruption.was_interrupted) == (None, True)


def test_every_thread_of_the_body_is_interrupted_once():
    interruption = Interruption()
    begun: list[int] = []

    def body() -> None:
        begun.append(1)
        while True:
            sum(range(100))

    slots = [Slot(interruption, body) for _ in range(3)]
    until(lambda: len(begun) == 3, seconds=PATIENCE, every=0.001)

    assert interruption.interrupt() == 3
    assert interruption.interrupt() == 0
    assert all(isinstance(slot.end().error, BodyInterrupted) for slot in slots)


def test_a_thread_that_has_left_the_body_is_not_interrupted():
    interruption = Interruption()
    slot = Slot(interruption, lambda: 7).end()

    assert interruption.interrupt() == 0
    assert (slot.value, interruption.was_interrupted) == (7, False)


def test_a_thread_that_leaves_while_it_is_interrupted_takes_that_in_and_goes_on(monkeypatch):
    """The exception is under way when the body returns; the settling must not get it."""
    interruption = Interruption()
    is_taken, may_raise = threading.Event(), threading.Event()
    real = module._raise_in_thread

    def raise_when_told(thread: Any, error: Any) -> Any:
        if error is not None:
            is_taken.set()
            assert may_raise.wait(PATIENCE)
        return real(thread, error)

    monkeypatch.setattr(module, "_raise_in_thread", raise_when_told)

    def body() -> str:
        assert is_taken.wait(PATIENCE)
        return "done"

    slot = Slot(interruption, body)
    interrupting = threading.Thread(target=interruption.interrupt)
    interrupting.start()
    until(lambda: function_of(slot) == "_leave", seconds=PATIENCE, every=0.001)
    may_raise.set()
    interrupting.join(PATIENCE)

    assert slot.end().late_error is None
    assert (slot.value, slot.error, interruption.was_interrupted) == ("done", None, True)


def test_whenever_the_interruption_comes_none_of_it_outlives_the_body():
    """Both at the same moment, many times, at every distance."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        hits = 0
        for turn in range(400):
            interruption = Interruption()
            begun: list[int] = []

            def body(begun=begun, turn=turn) -> str:
                begun.append(1)
                for number in range(turn * 10):
                    str(number)
                return "done"

            slot = Slot(interruption, body)
            while not begun:
                pass
            hits += interruption.interrupt()

            assert slot.end().late_error is None
            assert slot.error is not None or slot.value == "done"
            assert interruption.was_interrupted or slot.error is None
    finally:
        sys.setswitchinterval(interval)
    assert hits > 0, "No interruption met a body: nothing was shown."


def test_a_body_may_clean_up_after_an_interruption():
    interruption = Interruption()
    begun: list[int] = []
    cleaned: list[int] = []

    def body() -> None:
        try:
            begun.append(1)
            spin_for_ever()
        finally:
            cleaned.extend(range(1_000))

    slot = Slot(interruption, body)
    until(lambda: begun, seconds=PATIENCE, every=0.001)
    interruption.interrupt()
    interruption.interrupt()

    assert isinstance(slot.end().error, BodyInterrupted)
    assert len(cleaned) == 1_000


@pytest.mark.parametrize("kind", ["condition", "logging"])
def test_a_body_that_waits_for_a_lock_is_not_thrown_out_with_it(kind):
    """A thread that ends with the lock of all logging would stop the whole process."""
    interruption = Interruption()
    handler = Silent()
    # Of another thread than the slot: its successor may get the slot's id, and own its locks.
    lock = threading.Lock()
    if kind == "condition":
        condition = threading.Condition(lock)

        def body() -> None:
            with condition:
                pass
    else:
        handler.lock = lock  # type: ignore[assignment]  # typed as an RLock
        record = logging.makeLogRecord({"msg": "here"})

        def body() -> None:
            handler.handle(record)

    lock.acquire()
    slot = Slot(interruption, body)
    until(lambda: function_of(slot) in ("__enter__", "acquire", "handle"), seconds=PATIENCE)
    count = interruption.interrupt()
    assert interruption.is_inside == (count == 0)
    lock.release()

    assert slot.end().late_error is None
    assert isinstance(slot.error, BodyInterrupted) == bool(count)
    assert not lock.locked()


def test_an_error_of_the_body_is_its_own():
    interruption = Interruption()

    def body() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match=r"^no$"):
        interruption.run(body)
    assert interruption.interrupt() == 0


class Silent(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        pass


def spin_for_ever() -> None:
    # Not inside the try of its caller: Python 3.13 leaves the jump of a loop out of that.
    while True:
        sum(range(100))


def function_of(thread: threading.Thread) -> str | None:
    frame = sys._current_frames().get(thread.ident or 0)
    return None if frame is None else frame.f_code.co_name


def test_where_threads_stand_is_asked_without_a_garbage_collection(monkeypatch):
    """One that begins in there waits for ever for a lock that it holds itself."""
    ask = sys._current_frames
    was_collecting: list[bool] = []

    def watched() -> dict[int, FrameType]:
        was_collecting.append(gc.isenabled())
        return ask()

    monkeypatch.setattr(sys, "_current_frames", watched)

    assert threading.get_ident() in current_frames()
    assert (was_collecting, gc.isenabled()) == ([False], True)


def test_a_program_without_garbage_collection_stays_without_it():
    gc.disable()
    try:
        current_frames()
        assert not gc.isenabled()
    finally:
        gc.enable()
