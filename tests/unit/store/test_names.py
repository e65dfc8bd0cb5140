"""A name is refused before any SQL when the store could not keep and find it again."""

from __future__ import annotations

import pytest

from django_durable_jobs.store.names import MAX_NAME_BYTES, name_fault


@pytest.mark.parametrize("name", ["a", "charge 7", "é" * 100, "a" * MAX_NAME_BYTES, "日本"])
def test_a_storable_name_has_no_fault(name):
    assert name_fault(name) is None


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("", "is blank"),
        (" \t\n", "is blank"),
        ("a\0b", "holds a NUL character, which PostgreSQL cannot store"),
        ("a\ud800", "holds a lone surrogate, which is not valid text"),
        ("a" * 201, "takes 201 bytes as UTF-8; the limit is 200"),
        ("é" * 101, "takes 202 bytes as UTF-8; the limit is 200"),
        (7, "is of type int, not text"),
        (None, "is of type NoneType, not text"),
        (b"a", "is of type bytes, not text"),
    ],
)
def test_a_name_that_cannot_be_stored_says_why(name, fault):
    assert name_fault(name) == fault
