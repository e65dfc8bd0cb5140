"""Whether the steps that a body reaches are still those that its run has stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from django_durable_jobs.store.rows import StepRow

Ending = Literal["returned", "suspended", "raised"]
"""How an execution of the body ended."""

NAMES_SHOWN: Final = 5
"""Steps that a sentence names; of more it says how many."""


class StepSequence:
    """Compares one execution of a body with what earlier executions of its run stored.

    Told what happens, in the order in which it does; decides nothing and stops nothing.
    The names alone are compared: finished steps replay by name, so a run goes on either
    way, and a person should know that its code is not the one that began it.
    """

    def __init__(self) -> None:
        # In the order in which they were stored.
        self._unreached: dict[str, bool] = {}
        # For each new step that began ahead of a finished one: the first such.
        self._ahead: dict[str, str] = {}
        self._ran: list[str] = []

    def stored(self, rows: Iterable[StepRow]) -> None:
        """Say what earlier executions stored, in order; once, before the first step."""
        self._unreached = {row.name: not row.is_open for row in rows}

    def entered(self, name: str, is_stored: bool, branch: bool = False) -> None:
        """Say that the body reached the step *name*.

        Args:
            branch: In one of several branches side by side, whose order means nothing.
        """
        if is_stored:
            self._unreached.pop(name, None)
        elif not branch and self._unreached:
            finished = (each for each, is_finished in self._unreached.items() if is_finished)
            first = next(finished, None)
            if first is not None:
                self._ahead[name] = first

    def kept(self, name: str) -> None:
        """Say that this execution stored a checkpoint of *name*.

        A step that failed before, and fails again where the body catches that, is not new.
        """
        if name in self._ahead and name not in self._ran:
            self._ran.append(name)

    def difference(self, ending: Ending) -> str | None:
        """One sentence on how this execution differs from what was stored; None if it does not.

        Steps that were not reached say something only about a body that returned: it may
        yet reach them after a wait, or at the next attempt.
        """
        unreached = self._unreached if ending == "returned" else {}
        overtaking = [name for name in self._ran if self._ahead[name] not in unreached]
        beside = [name for name in self._ran if self._ahead[name] in unreached]
        parts = []
        if overtaking:
            parts.append(
                f"new {_steps(overtaking)} ran before step '{self._ahead[overtaking[0]]}', which "
                "an earlier run had finished"
            )
        if beside:
            parts.append(f"new {_steps(beside)} ran")
        if unreached:
            were = "was" if len(unreached) == 1 else "were"
            parts.append(f"stored {_steps(list(unreached))} {were} not reached")
        if not parts:
            return None
        sentence = ", and ".join(parts)
        return f"{sentence[0].upper()}{sentence[1:]}."


def _steps(names: Sequence[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:NAMES_SHOWN])
    rest = len(names) - NAMES_SHOWN
    more = f" and {rest} more" if rest > 0 else ""
    return f"{'step' if len(names) == 1 else 'steps'} {shown}{more}"
