"""Instants and durations as a person reads them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.utils import dateformat, timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86_400
# What a store writes for "no end"; it cannot be shown in every time zone.
_NEVER_YEAR: Final = 9999


def aware(moment: datetime) -> datetime:
    """Return *moment* as an instant; without USE_TZ the database answers naive local times."""
    return timezone.make_aware(moment) if timezone.is_naive(moment) else moment


def is_endless(moment: datetime | None) -> bool:
    """Whether *moment* stands for "no end"."""
    return moment is None or moment.year >= _NEVER_YEAR


def duration(span: timedelta) -> str:
    """Return a length of time in its largest fitting unit: ``1.5 s``, ``12 min``."""
    seconds = abs(span.total_seconds())
    if seconds < 1:
        return gettext("%(n)d ms") % {"n": round(seconds * 1000)}
    if seconds < 10:
        return gettext("%(n).1f s") % {"n": seconds}
    if seconds < 2 * _MINUTE:
        return gettext("%(n)d s") % {"n": seconds}
    if seconds < 2 * _HOUR:
        return gettext("%(n)d min") % {"n": seconds // _MINUTE}
    if seconds < 2 * _DAY:
        return gettext("%(n)d h") % {"n": seconds // _HOUR}
    return gettext("%(n)d d") % {"n": seconds // _DAY}


def relative(moment: datetime, now: datetime) -> str:
    """Return how long ago *moment* was or how soon it comes; durations below 1 s are "now"."""
    span = aware(moment) - now
    if abs(span.total_seconds()) < 1:
        return gettext("now")
    words = gettext("in %(span)s") if span > timedelta(0) else gettext("%(span)s ago")
    return words % {"span": duration(timedelta(seconds=int(span.total_seconds())))}


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
