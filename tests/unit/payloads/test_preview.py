"""An operator sees one short line, and never a secret."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_durable_jobs.payloads import preview

REDACT = ("password", "token", "secret", "api_key", "card")


@pytest.mark.parametrize(
    "key",
    ["password", "PASSWORD", "user_password", "accessToken", "tokens", "stripeApiKey",
     "STRIPE_API_KEY", "card-number", "client.secret", "password1"],
)  # fmt: skip
def test_a_value_under_a_key_that_names_a_secret_is_hidden(key: str) -> None:
    for value in ("hush", ["hush"], {"a": {"b": "hush"}}, 4111):
        shown = preview(json.dumps({"a": [{key: value, "next": 1}]}), redact=REDACT)

        assert "hush" not in shown
        assert "4111" not in shown
        assert shown.endswith('"…", "next": 1}]}')


@pytest.mark.parametrize("key", ["discard", "cardinality", "id", "keys"])
def test_a_key_that_only_contains_the_letters_is_shown(key: str) -> None:
    assert preview(json.dumps({key: "seen"}), redact=REDACT) == f'{{"{key}": "seen"}}'


def test_an_escaped_key_is_hidden_too() -> None:
    assert "hush" not in preview('{"\\u0070assword": "hush"}', redact=REDACT)


def test_a_secret_value_in_text_cut_off_by_the_query_is_hidden() -> None:
    whole = json.dumps({"a": 1, "password": ["hush", "hush"], "b": 2})

    for length in range(len(whole)):
        assert "hush" not in preview(whole[:length], redact=REDACT)


def test_the_line_is_short_and_has_no_control_characters() -> None:
    shown = preview(json.dumps({"a": "x\n\u2028\u202e" * 500}, ensure_ascii=False), 50)

    assert len(shown) == 50
    assert shown.isprintable()
    assert shown.endswith("…")


@given(st.text(), st.integers(0, 50))
def test_any_text_makes_a_line_within_the_limit(text: str, limit: int) -> None:
    shown = preview(text, limit, redact=REDACT)

    assert len(shown) <= max(limit, 1)
    assert shown.isprintable()


@given(
    st.recursive(
        st.integers() | st.booleans() | st.none(),
        lambda x: st.lists(x) | st.dictionaries(st.text("abc"), x),
    )
)
def test_json_within_the_limit_is_shown_whole(value: Any) -> None:
    assert preview(json.dumps(value, separators=(",", ":")), 10**6) == json.dumps(value)
