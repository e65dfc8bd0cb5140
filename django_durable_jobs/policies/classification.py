"""What a raised error says about another attempt.

The answer hangs on the error's code alone. A code that is not in the table, and any
exception that has none, is retried: a bug that a deploy will fix must not bury jobs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

Class = Literal["terminal", "retryable", "retry-after"]

CLASSES: Final[dict[str, Class]] = {
    # Another attempt would end the same way.
    "X_CHOICE_INVALID": "terminal",
    "X_DURATION_INVALID": "terminal",
    "X_EVENT_REFUSED": "terminal",
    "X_JOB_DECLARATION_INVALID": "terminal",
    "X_JOB_EVENT_INVALID": "terminal",
    "X_JOB_INPUT_INVALID": "terminal",
    "X_JOB_KEY_BUSY": "terminal",
    "X_JOB_MAX_ATTEMPTS": "terminal",
    "X_JOB_OPTION_INVALID": "terminal",
    "X_JOB_SUSPENSION_SWALLOWED": "terminal",
    "X_JOB_TENANT_MISMATCH": "terminal",
    "X_JOB_TENANT_REQUIRED": "terminal",
    "X_JOB_UNKNOWN": "terminal",
    "X_LEDGER_ENTRY_INVALID": "terminal",
    "X_LEDGER_POSTING_CONFLICT": "terminal",
    "X_LEDGER_UNBALANCED": "terminal",
    "X_LOCK_STORE_MISSING": "terminal",
    "X_NUMBER_INVALID": "terminal",
    "X_PAYLOAD_INVALID": "terminal",
    "X_PAYLOAD_TOO_LARGE": "terminal",
    "X_PAYLOAD_TYPE_UNSUPPORTED": "terminal",
    "X_SETTING_INVALID": "terminal",
    "X_JOB_VERSION_CHANGED": "terminal",
    "X_STEP_CHILD_FAILED": "terminal",
    "X_STEP_DUPLICATE": "terminal",
    "X_STEP_EFFECTS_ELSEWHERE": "terminal",
    "X_STEP_OUTPUT_UNSERIALIZABLE": "terminal",
    "X_STEP_REFUSED": "terminal",
    # Something in the way, which time removes.
    "X_DB_LOCK_TIMEOUT": "retryable",
    "X_DRAINING": "retryable",
    "X_DRIVER_UNAVAILABLE": "retryable",
    "X_JOB_KEY_CONTENDED": "retryable",
    # The body runs again and may return another value: one undefined number in a report
    # is often gone at the next try.
    "X_JOB_RESULT_UNSERIALIZABLE": "retryable",
    "X_JOB_TIMEOUT": "retryable",
    "X_LOCK_NOT_ACQUIRED": "retryable",
    "X_TIMEOUT": "retryable",
    # The failing side may say how long to stay away.
    "X_OVERLOADED": "retry-after",
    "X_RATE_LIMITED": "retry-after",
}


@dataclass(frozen=True)
class Terminal:
    """Another attempt is pointless."""

    reason: str


@dataclass(frozen=True)
class Retryable:
    """Another attempt after the ordinary backoff."""


@dataclass(frozen=True)
class RetryAfter:
    """Another attempt after the stated delay."""

    seconds: float


@dataclass(frozen=True)
class Facts:
    """What an exception says of itself.

    Attributes:
        code: Its ``code``, when that is text.
        terminal: Its ``terminal``, when that is a bool; goes before the table.
        retry_after: Its ``retry_after``, in seconds, whatever it is.
    """

    code: str | None = None
    terminal: bool | None = None
    retry_after: object = None


def facts_of(error: BaseException) -> Facts:
    """Read from an exception what ``classify`` asks for; foreign attributes are not trusted."""
    code = getattr(error, "code", None)
    terminal = getattr(error, "terminal", None)
    return Facts(
        code=code if isinstance(code, str) else None,
        terminal=terminal if isinstance(terminal, bool) else None,
        retry_after=getattr(error, "retry_after", None),
    )


def classify(facts: Facts) -> Terminal | Retryable | RetryAfter:
    """Say whether another attempt makes sense, and whether its delay was stated.

    A stated delay counts only for a code that may state one; missing, negative or no
    number, it gives way to the ordinary backoff.
    """
    kind = CLASSES.get(facts.code or "")
    if facts.terminal or (kind == "terminal" and facts.terminal is None):
        name = facts.code or "The error"
        return Terminal(f"{name} is terminal: another attempt would end the same way.")
    if kind == "retry-after":
        seconds = _seconds(facts.retry_after)
        if seconds is not None:
            return RetryAfter(seconds)
    return Retryable()


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        seconds = float(value)
    except OverflowError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
