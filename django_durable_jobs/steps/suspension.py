"""Leave a body in the middle, to come back to the same step later."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta


class Suspension(BaseException):
    """Unwinds a body whose step has to wait. Control flow, not an error.

    A ``BaseException``, so that ``except Exception`` in a body lets it pass. The run is
    parked, its slot is freed and its attempt is given back.

    Attributes:
        step: Name of the step that waits.
        run_at: When to look again, by the store's clock; None until something wakes it.
        delay: The same as a length of time; *run_at* wins.
        waits: The step waits for an event.
        calls: The step waits for children.
    """

    def __init__(
        self,
        step: str,
        *,
        run_at: datetime | None = None,
        delay: timedelta | None = None,
        waits: bool = False,
        calls: bool = False,
    ) -> None:
        self.step = step
        self.run_at = run_at
        self.delay = delay
        self.waits = waits
        self.calls = calls
        super().__init__(f"The run is parked in step '{step}'; let this exception pass.")


def suspension_in(error: BaseException) -> Suspension | None:
    """The suspension that *error* is, or None.

    A group is one when it holds suspensions and nothing else; beside a real error it is
    not, because parking the run would hide that error until the wait is over.
    """
    if isinstance(error, Suspension):
        return error
    if isinstance(error, BaseExceptionGroup) and error.split(Suspension)[1] is None:
        return merged(_flat(error))
    return None


def merged(suspensions: Sequence[Suspension]) -> Suspension:
    """One suspension that ends when the first of several does."""
    if len(suspensions) == 1:
        return suspensions[0]
    times = [each.run_at for each in suspensions if each.run_at is not None]
    delays = [each.delay for each in suspensions if each.delay is not None]
    return Suspension(
        ", ".join(each.step for each in suspensions),
        run_at=min(times, default=None),
        delay=min(delays, default=None),
        waits=any(each.waits for each in suspensions),
        calls=any(each.calls for each in suspensions),
    )


def _flat(group: BaseExceptionGroup[BaseException]) -> list[Suspension]:
    found: dict[int, Suspension] = {}
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            found |= {id(each): each for each in _flat(error)}
        elif isinstance(error, Suspension):
            found[id(error)] = error
    return list(found.values())
