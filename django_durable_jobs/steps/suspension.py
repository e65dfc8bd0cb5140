"""Leave a body in the middle, to come back to the same step later."""

from __future__ import annotations

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
    """

    def __init__(
        self,
        step: str,
        *,
        run_at: datetime | None = None,
        delay: timedelta | None = None,
        waits: bool = False,
    ) -> None:
        self.step = step
        self.run_at = run_at
        self.delay = delay
        self.waits = waits
        super().__init__(f"The run is parked in step '{step}'; let this exception pass.")


def suspension_in(error: BaseException) -> Suspension | None:
    """The suspension that *error* is, or None.

    A group is one when it holds suspensions and nothing else; beside a real error it is
    not, because parking the run would hide that error until the wait is over.
    """
    if isinstance(error, Suspension):
        return error
    if isinstance(error, BaseExceptionGroup) and error.split(Suspension)[1] is None:
        return suspension_in(error.exceptions[0])
    return None
