"""Every setting has a default, is read lazily, and says what is wrong with it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings

from django_durable_jobs.conf import SETTINGS, settings, unknown_keys
from django_durable_jobs.exceptions import SettingInvalid

DURATION = 'Give a timedelta, a number of seconds, or text such as "30s", "5m" or "1h30m".'

DEFAULTS: dict[str, object] = {
    "DATABASE": "default",
    "LISTEN_DATABASE": None,
    "DRIVER": "postgres",
    "JOBS_MODULE": "jobs",
    "LEASE": timedelta(seconds=60),
    "POLL_MAX": timedelta(seconds=3),
    "QUEUES": {},
    "MAX_PAYLOAD": 1_048_576,
    "GRACE": timedelta(seconds=30),
    "KILL_GRACE": timedelta(seconds=5),
    "UNKNOWN_AFTER": timedelta(hours=24),
    "ENQUEUE_LOCK_TIMEOUT": timedelta(seconds=2),
    "EVENT_TTL": timedelta(days=7),
}


@pytest.mark.parametrize(("key", "value"), DEFAULTS.items())
@override_settings(DURABLE_JOBS={})
def test_a_setting_that_is_not_given_has_its_default(key: str, value: object) -> None:
    assert getattr(settings, key) == value


@override_settings()
def test_a_project_may_leave_the_whole_dict_out() -> None:
    from django.conf import settings as project

    del project.DURABLE_JOBS
    settings.forget()

    assert {key: getattr(settings, key) for key in DEFAULTS} == DEFAULTS
    assert unknown_keys() == []


def test_every_setting_says_what_it_means_and_has_a_usable_default() -> None:
    for key, setting in SETTINGS.items():
        assert setting.meaning.endswith("."), key
        setting.read(key, setting.default)


@pytest.mark.parametrize("value", [90, 90.0, "90s", "1m30s", "1m 30s", timedelta(seconds=90)])
def test_a_duration_is_a_timedelta_whatever_way_it_was_written(value: object) -> None:
    with override_settings(DURABLE_JOBS={"LEASE": value}):
        assert timedelta(seconds=90) == settings.LEASE


def test_settings_follow_a_change_in_a_test() -> None:
    before = settings.MAX_PAYLOAD
    with override_settings(DURABLE_JOBS={"MAX_PAYLOAD": 7}):
        assert settings.MAX_PAYLOAD == 7
    assert before == settings.MAX_PAYLOAD


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("DATABASE", "", "must be non-blank text."),
        ("DATABASE", None, "must be non-blank text."),
        ("LISTEN_DATABASE", 7, "must be non-blank text."),
        ("LEASE", "soon", f"is not a duration. {DURATION}"),
        ("LEASE", -1, f"is negative. {DURATION}"),
        ("LEASE", float("nan"), f"is not finite. {DURATION}"),
        ("LEASE", [60], f"is a list, not a duration. {DURATION}"),
        ("LEASE", 0, "must be at least 1s."),
        ("LEASE", "999ms", "must be at least 1s."),
        ("LEASE", "40000d", "must be at most 36525d."),
        ("POLL_MAX", 0, "must be at least 10ms."),
        ("ENQUEUE_LOCK_TIMEOUT", 0, "must be at least 1ms."),
        ("ENQUEUE_LOCK_TIMEOUT", "25d", "must be at most 24d."),
        ("EVENT_TTL", 0, "must be at least 1ms."),
        ("MAX_PAYLOAD", 0, "must be a whole number, at least 1."),
        ("MAX_PAYLOAD", True, "must be a whole number, at least 1."),
        ("MAX_PAYLOAD", "1MB", "must be a whole number, at least 1."),
        (
            "MAX_PAYLOAD",
            67_108_865,
            "must be at most 67,108,864 bytes. Store larger data elsewhere and pass its key.",
        ),
        ("QUEUES", ["mail"], 'must be a dict of queue name to options. Write {"mail": {}}.'),
        ("QUEUES", {"": {}}, "has a queue name that is blank or not text."),
        ("QUEUES", {7: {}}, "has a queue name that is blank or not text."),
        ("QUEUES", {"mail": 3}, "must give queue 'mail' a dict of options."),
        (
            "QUEUES",
            {"mail": {"slot": 3}},
            "gives queue 'mail' the unknown option 'slot'. The only option is 'slots'.",
        ),
        (
            "QUEUES",
            {"mail": {"slots": 0}},
            "gives queue 'mail' slots that are not a whole number of at least 1.",
        ),
        ("REDACT", "password", "must be a list of names."),
        ("REDACT", ["password", 7], "must be non-blank text."),
    ],
)
def test_a_value_that_cannot_be_used_is_refused(key: str, value: Any, message: str) -> None:
    with override_settings(DURABLE_JOBS={key: value}), pytest.raises(SettingInvalid) as refused:
        getattr(settings, key)

    assert str(refused.value) == f'DURABLE_JOBS["{key}"] {message}'
    assert (refused.value.code, refused.value.key) == ("X_SETTING_INVALID", key)


@pytest.mark.parametrize(
    ("key", "value"), [("GRACE", 0), ("KILL_GRACE", 0), ("UNKNOWN_AFTER", 0), ("REDACT", [])]
)
def test_zero_and_nothing_are_taken_where_they_mean_something(key: str, value: object) -> None:
    with override_settings(DURABLE_JOBS={key: value}):
        assert not getattr(settings, key)


@override_settings(DURABLE_JOBS=["LEASE"])
def test_settings_that_are_no_dict_are_refused() -> None:
    with pytest.raises(SettingInvalid) as refused:
        _ = settings.LEASE

    assert str(refused.value) == (
        'DURABLE_JOBS["LEASE"] cannot be read: DURABLE_JOBS must be a dict.'
    )
    assert unknown_keys() == []


@override_settings(DURABLE_JOBS={"LEES": 1, "LEASE": "60s", "lease": 1, 7: 1})
def test_keys_that_mean_nothing_are_known() -> None:
    assert unknown_keys() == ["7", "LEES", "lease"]


def test_a_setting_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        _ = settings.LEES
