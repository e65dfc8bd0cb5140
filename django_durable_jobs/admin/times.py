"""Instants and durations as a person reads them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.utils import dateformat, timezone
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86_400
# Up to here a length is told in the smaller unit: "90 s" says more than "1 min".
_LONG_SECONDS: Final = 100
_LONG_MINUTES: Final = 100 * _MINUTE
_LONG_HOURS: Final = 48 * _HOUR
# What a store writes for "no end"; it cannot be shown in every time zone.
_NEVER_YEAR: Final = 9999


def aware(moment: datetime) -> datetime:
    """Return *moment* as an instant; without USE_TZ the database answers naive local times."""
    return timezone.make_aware(moment) if timezone.is_naive(moment) else moment


def is_endless(moment: datetime | None) -> bool:
    """Whether *moment* stands for "no end"."""
    return moment is None or moment.year >= _NEVER_YEAR


def duration(span: timedelta) -> str:
    """Return a measured length of time: ``120 ms``, ``1.5 s``, ``2.4 min``, ``12 min``."""
    seconds = abs(span.total_seconds())
    if seconds < 1:
        return gettext("%(n)s ms") % {"n": round(seconds * 1000)}
    if seconds < _LONG_SECONDS:
        return gettext("%(n)s s") % {"n": _two_digits(seconds)}
    if seconds < _LONG_MINUTES:
        return gettext("%(n)s min") % {"n": _two_digits(seconds / _MINUTE)}
    if seconds < _LONG_HOURS:
        return gettext("%(n)s h") % {"n": _two_digits(seconds / _HOUR)}
    return gettext("%(n)s d") % {"n": _two_digits(seconds / _DAY)}


def rough(span: timedelta) -> str:
    """Return a length of time in whole units: ``8 s``, ``2 min``, ``3 h``."""
    seconds = round(abs(span.total_seconds()))
    if seconds < _LONG_SECONDS:
        return gettext("%(n)s s") % {"n": seconds}
    if seconds < _LONG_MINUTES:
        return gettext("%(n)s min") % {"n": round(seconds / _MINUTE)}
    if seconds < _LONG_HOURS:
        return gettext("%(n)s h") % {"n": round(seconds / _HOUR)}
    return gettext("%(n)s d") % {"n": round(seconds / _DAY)}


def _two_digits(number: float) -> str:
    return number_format(number, 1 if number < 10 else 0)


def relative(moment: datetime, now: datetime) -> str:
    """Return how long ago *moment* was or how soon it comes; durations below 1 s are "now"."""
    span = aware(moment) - now
    if abs(span.total_seconds()) < 1:
        return gettext("now")
    words = gettext("in %(span)s") if span > timedelta(0) else gettext("%(span)s ago")
    return words % {"span": rough(span)}


def exact(moment: datetime) -> str:
    """Return *moment* to the second in the current time zone, with the zone's name."""
    return dateformat.format(timezone.localtime(aware(moment)), "Y-m-d H:i:s T")


def time_tag(moment: datetime | None, now: datetime) -> SafeString:
    """Return a ``<time>`` that reads relative and tells the exact instant on demand."""
    if moment is None or is_endless(moment):
        return format_html("{}", "–")
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        aware(moment).isoformat(),
        exact(moment),
        relative(moment, now),
    )


def age_tag(moment: datetime, now: datetime) -> SafeString:
    """Return a ``<time>`` that reads as the age of *moment* and tells the instant on demand."""
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        aware(moment).isoformat(),
        exact(moment),
        rough(now - aware(moment)),
    )


def exact_tag(moment: datetime | None, now: datetime) -> SafeString:
    """Return a ``<time>`` that reads exact, with the relative form behind it."""
    if moment is None or is_endless(moment):
        return format_html("{}", "–")
    return format_html(
        '<time datetime="{}">{}</time> <span class="ddj-quiet">{}</span>',
        aware(moment).isoformat(),
        exact(moment),
        relative(moment, now),
    )
