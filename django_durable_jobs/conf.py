"""Every setting, with its default and unit, read lazily from ``DURABLE_JOBS``.

``settings.LEASE`` is a ``timedelta`` whatever way it was written. A project that
sets nothing runs on the defaults below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.conf import settings as django_settings
from django.core.signals import setting_changed

from .durations import parse_duration
from .exceptions import DurationInvalid, SettingInvalid

LARGEST_PAYLOAD: Final = 64 * 1024 * 1024
"""Bytes that ``MAX_PAYLOAD`` may be set to."""


def _text(key: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise SettingInvalid(key, "must be non-blank text.")
    return value


def _optional_text(key: str, value: object) -> str | None:
    return None if value is None else _text(key, value)


def _duration(*, least: str = "0s", most: str = "36525d") -> Callable[[str, Any], timedelta]:
    """A reader of durations from *least* to *most*; a hundred years unless told otherwise."""
    shortest = parse_duration(least, subject="least")
    longest = parse_duration(most, subject="most")

    def read(key: str, value: Any) -> timedelta:
        subject = f'DURABLE_JOBS["{key}"]'
        try:
            duration = parse_duration(value, subject=subject)
        except DurationInvalid as error:
            reason = error.cause.removeprefix(subject).strip()
            raise SettingInvalid(key, reason, error.fix) from error
        if duration < shortest:
            raise SettingInvalid(key, f"must be at least {least}.")
        if duration > longest:
            raise SettingInvalid(key, f"must be at most {most}.")
        return duration

    return read


def _payload_size(key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SettingInvalid(key, "must be a whole number, at least 1.")
    if value > LARGEST_PAYLOAD:
        # One value of a jsonb column holds 256 MiB at the very most, and an output that turned
        # out too large for the database would be refused after its effect.
        raise SettingInvalid(
            key,
            f"must be at most {LARGEST_PAYLOAD:,} bytes.",
            "Store larger data elsewhere and pass its key.",
        )
    return value


def _names(key: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, list | tuple | set | frozenset):
        raise SettingInvalid(key, "must be a list of names.")
    return tuple(_text(key, item) for item in value)


def _queues(key: str, value: object) -> dict[str, dict[str, Any]]:
    if not isinstance(value, Mapping):
        raise SettingInvalid(key, "must be a dict of queue name to options.", 'Write {"mail": {}}.')
    queues: dict[str, dict[str, Any]] = {}
    for name, options in value.items():
        if not isinstance(name, str) or not name.strip():
            raise SettingInvalid(key, "has a queue name that is blank or not text.")
        if not isinstance(options, Mapping):
            raise SettingInvalid(key, f"must give queue '{name}' a dict of options.")
        unknown = sorted(str(option) for option in options if option != "slots")
        if unknown:
            raise SettingInvalid(
                key,
                f"gives queue '{name}' the unknown option '{unknown[0]}'.",
                "The only option is 'slots'.",
            )
        slots = options.get("slots", 1)
        if isinstance(slots, bool) or not isinstance(slots, int) or slots < 1:
            raise SettingInvalid(
                key, f"gives queue '{name}' slots that are not a whole number of at least 1."
            )
        queues[name] = dict(options)
    return queues


@dataclass(frozen=True)
class Setting:
    """One key of ``DURABLE_JOBS``.

    Attributes:
        default: Used when the key is absent.
        read: Turns what was written into the value the code uses.
        meaning: One line, with the unit.
    """

    default: Any
    read: Callable[[str, Any], Any]
    meaning: str


SETTINGS: Final[dict[str, Setting]] = {
    "DATABASE": Setting("default", _text, "Alias of the database that holds the jobs."),
    "LISTEN_DATABASE": Setting(
        None, _optional_text, "Alias with a direct connection for LISTEN; DATABASE if None."
    ),
    "DRIVER": Setting("postgres", _text, "Store: postgres, memory, or a dotted path to a class."),
    "JOBS_MODULE": Setting("jobs", _text, "Module of each app that declares jobs."),
    "LEASE": Setting("60s", _duration(least="1s"), "How long a claim holds without renewal."),
    "POLL_MAX": Setting(
        "3s", _duration(least="10ms"), "Longest idle poll while no wake-up is proven."
    ),
    "QUEUES": Setting({}, _queues, "Queues and their options; empty: those the jobs name."),
    "MAX_PAYLOAD": Setting(1_048_576, _payload_size, "Largest input, result or output, in bytes."),
    "GRACE": Setting("30s", _duration(), "How long a stop waits for running jobs."),
    "KILL_GRACE": Setting("5s", _duration(), "How long a timed-out body may take to end."),
    "UNKNOWN_AFTER": Setting("24h", _duration(), "How long a job of unknown name is kept waiting."),
    # PostgreSQL reads 0 ms as "for ever", and holds no more than 24 days.
    "ENQUEUE_LOCK_TIMEOUT": Setting(
        "2s",
        _duration(least="1ms", most="24d"),
        "How long a keyed enqueue waits for another transaction.",
    ),
    "EVENT_TTL": Setting("7d", _duration(least="1ms"), "How long an event can still be matched."),
    "REDACT": Setting(
        ("password", "passwd", "secret", "token", "api_key", "apikey", "authorization", "card"),
        _names,
        "Payload keys that are never shown; compared in lower case.",
    ),
}


class _Settings:
    """``settings.KEY``, read from ``DURABLE_JOBS`` at first use and kept until it changes."""

    DATABASE: str
    LISTEN_DATABASE: str | None
    DRIVER: str
    JOBS_MODULE: str
    LEASE: timedelta
    POLL_MAX: timedelta
    QUEUES: dict[str, dict[str, Any]]
    MAX_PAYLOAD: int
    GRACE: timedelta
    KILL_GRACE: timedelta
    UNKNOWN_AFTER: timedelta
    ENQUEUE_LOCK_TIMEOUT: timedelta
    EVENT_TTL: timedelta
    REDACT: tuple[str, ...]

    def __getattr__(self, key: str) -> Any:
        setting = SETTINGS.get(key)
        if setting is None:
            raise AttributeError(key)
        written = getattr(django_settings, "DURABLE_JOBS", {})
        if not isinstance(written, Mapping):
            raise SettingInvalid(key, "cannot be read: DURABLE_JOBS must be a dict.")
        value = setting.read(key, written.get(key, setting.default))
        self.__dict__[key] = value
        return value

    def forget(self) -> None:
        """Read everything anew at the next use."""
        self.__dict__.clear()


settings: Final = _Settings()


def unknown_keys() -> list[str]:
    """Keys of ``DURABLE_JOBS`` that mean nothing, sorted."""
    written = getattr(django_settings, "DURABLE_JOBS", {})
    if not isinstance(written, Mapping):
        return []
    return sorted(str(key) for key in written if key not in SETTINGS)


def _setting_changed(*, setting: str, **_: object) -> None:
    if setting == "DURABLE_JOBS":
        settings.forget()


setting_changed.connect(_setting_changed)
