"""How long a loop waits before it tries again."""

from __future__ import annotations

import random


class Backoff:
    """Doubles from *first* to *longest* seconds, each wait spread by up to a half.

    Spread, because a fleet that lost its database would otherwise come back in step.
    """

    def __init__(self, *, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self._next = first

    def wait(self) -> float:
        """Seconds to wait now; the next answer is longer."""
        seconds = self._next
        self._next = min(self._next * 2, self._longest)
        return seconds * (0.75 + random.random() / 2)

    def reset(self) -> None:
        """Begin again from the first wait."""
        self._next = self._first

    @property
    def is_fresh(self) -> bool:
        """Whether nothing was waited for since the last reset."""
        return self._next == self._first
