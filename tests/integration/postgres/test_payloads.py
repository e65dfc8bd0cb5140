"""What the codec writes comes back from a jsonb column as the same value and type."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from django_durable_jobs.payloads import Codec

CODEC = Codec()
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | TEXT
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)


def through_the_column(value: Any) -> Any:
    with connection.cursor() as cursor:
        cursor.execute("select %s::jsonb::text", [CODEC.encode(value, subject="A value")])
        return CODEC.decode(cursor.fetchone()[0])


@pytest.mark.django_db
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(VALUES)
@example([1e16, 1e22, 1.5e300, 1.7976931348623157e308, 5e-324, -1e23])
@example({"1e16": "1e16", "quote\\": 'a"1e5'})
@example(2**53 + 1)
@example(10**400)
def test_a_value_without_annotation_keeps_value_and_type(value):
    again = through_the_column(value)

    assert again == value
    assert kinds(again) == kinds(value)


def kinds(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: kinds(item) for key, item in value.items()}
    if isinstance(value, list):
        return [kinds(item) for item in value]
    return type(value)
