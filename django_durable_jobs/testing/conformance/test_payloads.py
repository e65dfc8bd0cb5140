"""Payloads cross as JSON text: what comes out says the same as what went in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from django_durable_jobs import states
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.rows import NewStep

from .given import claim, claimed, enqueue, publish, put_wait, settle, shown

VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "zero": 0,
    "large whole number": 2**70,
    "negative number": -7,
    "fraction": 0.1,
    "small fraction": 1.5e-7,
    "whole fraction": 1.0,
    "empty text": "",
    "text": "Grüße, 世界 🎉",
    "quotes and breaks": 'a "b" \\ c\n\t\r %s :name',
    "control character": "\u0001",
    "decimal as text": "12.340",
    "empty list": [],
    "empty object": {},
    "nested": {"a": [1, {"b": [None, False, "c"]}], "": {"d": {}}},
    "long text": "x" * 100_000,
    "many keys": {f"k{number}": number for number in range(1000)},
}


def same(text: str | None, value: Any) -> bool:
    """Whether *text* is JSON of *value*, with its type: 1, 1.0 and true are not the same."""
    assert text is not None
    return json.dumps(json.loads(text), sort_keys=True) == json.dumps(value, sort_keys=True)


@pytest.mark.parametrize("value", VALUES.values(), ids=list(VALUES))
class TestPayloads:
    def test_an_input_comes_out_as_it_went_in(self, store: JobStore, value: Any) -> None:
        payload = {"argument": value}
        job_id = enqueue(store, input=json.dumps(payload))

        assert same(shown(store, job_id).input, payload)
        [job] = claim(store)
        assert same(job.input, payload)

    def test_a_result_comes_out_as_it_went_in(self, store: JobStore, value: Any) -> None:
        identity = claimed(store)
        settle(store, identity, states.DONE, result=json.dumps(value))

        assert same(shown(store, identity.job_id).result, value)

    def test_a_progress_value_comes_out_as_it_went_in(self, store: JobStore, value: Any) -> None:
        identity = claimed(store)
        store.record_progress(identity, json.dumps(value))

        assert same(shown(store, identity.job_id).progress, value)

    def test_an_output_comes_out_as_it_went_in(self, store: JobStore, value: Any) -> None:
        identity = claimed(store)
        step = store.put_step(identity, NewStep("charge", 1, "done", output=json.dumps(value)))

        assert same(step.output, value)
        assert [same(each.output, value) for each in store.load_steps(identity.job_id)] == [True]

    def test_an_events_payload_comes_out_as_it_went_in(self, store: JobStore, value: Any) -> None:
        wait = put_wait(store, claimed(store))
        publish(store, payload=json.dumps(value))

        event = store.find_event(wait)

        assert event is not None
        assert same(event.payload, value)


class TestAsciiEscapes:
    def test_text_written_with_or_without_escapes_is_the_same(self, store: JobStore) -> None:
        value = {"name": "Grüße 🎉"}
        for ascii_only in (True, False):
            identity = claimed(store)
            settle(
                store,
                identity,
                states.DONE,
                result=json.dumps(value, ensure_ascii=ascii_only),
            )

            assert same(shown(store, identity.job_id).result, value)
