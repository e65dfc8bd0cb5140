"""What one call may say beyond the input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.utils import timezone

from django_durable_jobs.durations import parse_duration
from django_durable_jobs.exceptions import DurationInvalid, OptionInvalid
from django_durable_jobs.store.names import name_fault
from django_durable_jobs.store.rows import ConflictPolicy

PRIORITY_BOUND: Final = 32_767
"""Largest priority, and its negative the smallest: a 2-byte integer with its sign turned."""

MAX_ATTEMPTS: Final = 1_000_000_000
MAX_DELAY: Final = timedelta(days=36_525)
"""A hundred years; further than this the database's own calendar ends."""


_FIRST_INSTANT: Final = datetime(1, 1, 2, tzinfo=UTC)
_LAST_INSTANT: Final = datetime(9999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of ``.using()``.

    Attributes:
        delay: Wait this long, by the database's clock.
        run_at: Due at this instant. A naive one is in ``TIME_ZONE`` and refused under
            ``USE_TZ`` and where clocks change.
        on_conflict: When a live job holds the key: answer it (``existing``) or refuse
            (``raise``).
        tenant_id: The enqueuer's tenant.
        enqueued_by: Who asked for it; attribution, never authority.
        transactional: False stores the job at once on a connection of its own: it runs
            even if the caller rolls back.
    """

    queue: str | None = None
    priority: int | None = None
    delay: timedelta | None = None
    run_at: datetime | None = None
    idempotency_key: str | None = None
    on_conflict: ConflictPolicy = "existing"
    tenant_id: str | None = None
    max_attempts: int | None = None
    enqueued_by: str = ""
    transactional: bool = True

    def merged(self, job: str, changes: dict[str, Any]) -> Options:
        """These options with *changes*, checked.

        Raises:
            OptionInvalid: An option is unknown or its value cannot be honoured.
        """
        unknown = sorted(set(changes) - OPTION_NAMES)
        if unknown:
            raise OptionInvalid(
                job, unknown[0], "is unknown.", f"Options: {', '.join(sorted(OPTION_NAMES))}."
            )
        checked = {name: _CHECKS[name](job, name, value) for name, value in changes.items()}
        merged = replace(self, **checked)
        if merged.delay is not None and merged.run_at is not None:
            raise OptionInvalid(job, "run_at", "was given together with delay.", "Give one.")
        return merged


OPTION_NAMES: Final = frozenset(field.name for field in fields(Options))


def check_priority(job: str, option: str, value: object) -> int:
    """Refuse what a priority's column cannot hold."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise OptionInvalid(job, option, f"is a {type(value).__name__}, not a whole number.")
    if abs(value) > PRIORITY_BOUND:
        raise OptionInvalid(job, option, f"is out of range: -{PRIORITY_BOUND} to {PRIORITY_BOUND}.")
    return value


def check_name(job: str, option: str, value: object) -> str:
    """Refuse what cannot be stored and compared as a name."""
    fault = name_fault(value)
    if fault is not None:
        raise OptionInvalid(job, option, f"{fault}.")
    return str(value)


def _optional_name(job: str, option: str, value: object) -> str | None:
    return None if value is None else check_name(job, option, value)


def _text_or_blank(job: str, option: str, value: object) -> str:
    return "" if value == "" else check_name(job, option, value)


def _optional_text(job: str, option: str, value: object) -> str | None:
    return None if value is None else _text_or_blank(job, option, value)


def _delay(job: str, option: str, value: Any) -> timedelta | None:
    if value is None:
        return None
    try:
        delay = parse_duration(value, subject=option)
    except DurationInvalid as error:
        raise OptionInvalid(job, option, error.cause.removeprefix(option).strip(), error.fix) from (
            error
        )
    if delay > MAX_DELAY:
        raise OptionInvalid(job, option, "is longer than 100 years.")
    return delay


def _run_at(job: str, option: str, value: object) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise OptionInvalid(job, option, f"is a {type(value).__name__}, not a datetime.")
    if not timezone.is_naive(value):
        return _storable(job, option, value)
    from django.conf import settings

    if settings.USE_TZ:
        raise OptionInvalid(
            job, option, "is a naive datetime.", "Give it a zone: timezone.make_aware(value)."
        )
    zone = timezone.get_default_timezone()
    aware = value.replace(tzinfo=zone)
    # A time that occurs twice, or not at all, has two offsets: no telling which is meant.
    if aware.utcoffset() != aware.replace(fold=1).utcoffset():
        raise OptionInvalid(
            job,
            option,
            f"is ambiguous or missing in {zone}: clocks change then.",
            "Give an aware datetime.",
        )
    return _storable(job, option, aware)


def _storable(job: str, option: str, instant: datetime) -> datetime:
    # A day inside the calendar's ends, so that it can be shown in any zone.
    if not _FIRST_INSTANT <= instant <= _LAST_INSTANT:
        raise OptionInvalid(job, option, "is outside the years 1 to 9999.")
    return instant


def _max_attempts(job: str, option: str, value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_ATTEMPTS:
        raise OptionInvalid(job, option, f"must be a whole number from 1 to {MAX_ATTEMPTS:,}.")
    return value


def _on_conflict(job: str, option: str, value: object) -> object:
    if value not in ("existing", "raise"):
        raise OptionInvalid(job, option, "must be 'existing' or 'raise'.")
    return value


def _flag(job: str, option: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise OptionInvalid(job, option, "must be True or False.")
    return value


def _optional_priority(job: str, option: str, value: object) -> int | None:
    return None if value is None else check_priority(job, option, value)


_CHECKS: Final[dict[str, Callable[[str, str, Any], Any]]] = {
    "queue": _optional_name,
    "priority": _optional_priority,
    "delay": _delay,
    "run_at": _run_at,
    "idempotency_key": _optional_name,
    "on_conflict": _on_conflict,
    "tenant_id": _optional_text,
    "max_attempts": _max_attempts,
    "enqueued_by": _text_or_blank,
    "transactional": _flag,
}
