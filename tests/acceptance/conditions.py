"""Waiting for something to become true."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

T = TypeVar("T")

_never = threading.Event()


def until(
    condition: Callable[[], T],
    *,
    seconds: float,
    every: float = 0.05,
    otherwise: Callable[[], str] = lambda: "",
) -> T:
    """Ask *condition* again and again until it answers something true; return that.

    Raises:
        AssertionError: It did not within *seconds*; the message ends with what *otherwise* says.
    """
    deadline = monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if monotonic() > deadline:
            raise AssertionError(f"Not within {seconds:g} s. {otherwise()}".rstrip())
        _never.wait(every)
