"""What an exploration found, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from .history import Note
from .wire import Boundary

_SHOWN: Final = 5
"""Violations that a report prints whole."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A run that did not keep a promise.

    Attributes:
        boundary: Where it was disturbed; None for the undisturbed run.
        again: What to type to have exactly this run again.
    """

    flow: str
    boundary: Boundary | None
    fault: str
    problems: tuple[str, ...]
    history: tuple[Note, ...]
    again: str

    def __str__(self) -> str:
        where = "undisturbed" if self.boundary is None else f"boundary {self.boundary}"
        lines = [f"{self.flow}, {where}, fault {self.fault}:"]
        lines += [f"  - {problem}" for problem in self.problems]
        lines += [
            "  history:",
            *(f"    {place}. {each}" for place, each in enumerate(self.history, 1)),
        ]
        if self.again:
            lines.append(f"  again: {self.again}")
        return "\n".join(lines)


@dataclass(slots=True)
class Explored:
    """What was tried on one flow, and what came of it.

    Attributes:
        boundaries: Statement boundaries at which something was made to happen.
        runs: Runs of the flow, each with one fault.
        kills: Of these, real processes that were killed.
        missed: Of these, runs in which a parked job was brought back by the look for missed
            wakes only, by the statement that was hit.
    """

    flow: str
    seed: int
    boundaries: int = 0
    runs: int = 0
    kills: int = 0
    missed: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)

    def __str__(self) -> str:
        missed = ", ".join(f"{count} at {name}" for name, count in sorted(self.missed.items()))
        return (
            f"{self.flow}: {self.boundaries} boundaries, {self.runs} runs, {self.kills} kills "
            f"(seed {self.seed}), look for missed wakes needed {self.missed.total()} times"
            f"{f' ({missed})' if missed else ''}: {len(self.violations)} violations"
        )


def report(violations: Sequence[Violation]) -> str:
    """All of them: the first ones whole, the others in a line."""
    lines = [str(each) for each in violations[:_SHOWN]]
    lines += [f"{each.flow}, {each.boundary}, fault {each.fault}" for each in violations[_SHOWN:]]
    return "\n".join(lines)
