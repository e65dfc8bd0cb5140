"""What may be typed into the search field, and what it asks of the database.

Each form either rides an index or looks at a stated window; text inside payloads is
never searched as text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _

from django_durable_jobs import states
from django_durable_jobs.models import Job

from .payload import names_a_secret

WINDOW: Final = 100_000
"""How many of the newest jobs are searched by input and by key."""

HELP: Final = _(
    "Job id or its beginning, job name, key:… for an idempotency key, "
    "or input.path=value (both among the newest 100,000 jobs)"
)

# Asked by name as well, an id would cost a walk through the table: names stand in no index.
_ID: Final = re.compile(r"[0-9a-f]{8,32}\Z")
_SHORT_ID: Final = re.compile(r"[0-9a-f]{4,7}\Z")
_ID_DIGITS: Final = 32


class SearchRefused(Exception):
    """The term asks for what this person may not see; the message says so."""


def search(
    jobs: QuerySet[Job], term: str, *, names: Iterable[str], may_see_payload: bool
) -> QuerySet[Job]:
    """Return the jobs that *term* means; none if it means nothing.

    Args:
        names: Job names that this process knows.
        may_see_payload: Whether a search by input is allowed; it would tell what it
            holds otherwise.

    Raises:
        SearchRefused: It asks by input without the permission, or by a redacted key.
    """
    term = term.strip()
    if not term:
        return jobs
    if "\0" in term:
        return jobs.none()
    if term.startswith("key:"):
        key = term.removeprefix("key:")
        is_recent = Q(pk__gte=_oldest_in_window(jobs))
        return jobs.filter(is_recent | Q(state__in=states.LIVE_STATES), idempotency_key=key)
    if term.startswith("input.") and "=" in term:
        path, _equals, value = term.removeprefix("input.").partition("=")
        if not may_see_payload:
            raise SearchRefused(_("You may not search by input."))
        keys = path.split(".")
        if any(names_a_secret(key) for key in keys):
            raise SearchRefused(_("Values of this key are never shown, so not searched either."))
        matches = Q()
        for candidate in _readings_of(value):
            matches |= Q(input__contains=_nested(keys, candidate))
        return jobs.filter(matches, pk__gte=_oldest_in_window(jobs))
    digits = term.lower().replace("-", "")
    if _ID.match(digits):
        return jobs.filter(_by_id(digits))
    by_name = _by_name(term, names)
    # So few digits may be a word as well, such as "dead".
    return jobs.filter(_by_id(digits) | by_name if _SHORT_ID.match(digits) else by_name)


def _oldest_in_window(jobs: QuerySet[Job]) -> UUID:
    newest_first = Job._default_manager.using(jobs.db).order_by("-pk").values_list("pk", flat=True)
    oldest: UUID | None = newest_first[WINDOW - 1 : WINDOW].first()
    return UUID(int=0) if oldest is None else oldest


def _by_id(digits: str) -> Q:
    first = UUID(digits.ljust(_ID_DIGITS, "0"))
    last = UUID(digits.ljust(_ID_DIGITS, "f"))
    return Q(pk=first) if first == last else Q(pk__gte=first, pk__lte=last)


def _by_name(term: str, names: Iterable[str]) -> Q:
    wanted = term.lower()
    # The term itself finds jobs whose declaration is gone.
    return Q(name__in=sorted({term, *(name for name in names if wanted in name.lower())}))


def _readings_of(value: str) -> list[Any]:
    """Return the JSON scalars that *value* may mean: 7 is the number and the text."""
    readings: list[Any] = [value]
    try:
        scalar = json.loads(value, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return readings
    is_number = isinstance(scalar, int) or (isinstance(scalar, float) and math.isfinite(scalar))
    if scalar is None or isinstance(scalar, str) or is_number:
        readings.append(scalar)
    return readings


def _refuse_constant(word: str) -> Any:
    raise ValueError(word)


def _nested(keys: list[str], value: Any) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value
