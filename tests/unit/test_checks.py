"""System checks name what is wrong and the remedy, at every command, and open no connection."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from django.core.checks import CheckMessage, Tags, run_checks
from django.core.checks.registry import registry
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connections
from django.test import override_settings
from psycopg import IsolationLevel

from django_durable_jobs import checks, job
from django_durable_jobs.checks import check_command_clash
from django_durable_jobs.conf import SETTINGS
from django_durable_jobs.exceptions import JobNameTaken
from django_durable_jobs.jobs import get_job
from django_durable_jobs.jobs.registry import scratch_registry

if TYPE_CHECKING:
    from collections import Missing  # type: ignore[attr-defined]  # never imported

# No mark of the database: pytest-django fails a test whose checks touch one.


@pytest.fixture(autouse=True)
def _clean_registry() -> Iterator[None]:
    with scratch_registry():
        yield


def found() -> list[CheckMessage]:
    """What our checks find at a plain command, which leaves out those tagged ``database``."""
    ours = [
        check
        for check in registry.get_checks()
        if check.__module__ == checks.__name__ and Tags.database not in check.tags
    ]
    assert len(ours) == 4
    return [message for check in ours for message in check(app_configs=None, databases=None)]


def told(messages: list[CheckMessage]) -> list[tuple[object, ...]]:
    return [(one.id, one.msg, one.hint) for one in messages]


def test_a_sound_project_has_nothing_to_hear() -> None:
    assert found() == []
    assert [one for one in run_checks() if str(one.id).startswith("durable_jobs.")] == []


@override_settings(DURABLE_JOBS={"LEES": "60s"})
def test_an_unknown_setting_is_named_with_those_there_are() -> None:
    assert told(found()) == [
        (
            "durable_jobs.E001",
            'DURABLE_JOBS["LEES"] is not a setting.',
            f"Known settings: {', '.join(sorted(SETTINGS))}.",
        )
    ]


@override_settings(DURABLE_JOBS={"LEASE": "soon", "MAX_PAYLOAD": 0})
def test_each_setting_that_cannot_be_used_is_named() -> None:
    assert told(found()) == [
        (
            "durable_jobs.E002",
            'DURABLE_JOBS["LEASE"] is not a duration.',
            'Give a timedelta, a number of seconds, or text such as "30s", "5m" or "1h30m".',
        ),
        (
            "durable_jobs.E002",
            'DURABLE_JOBS["MAX_PAYLOAD"] must be a whole number, at least 1.',
            None,
        ),
    ]


@override_settings(DURABLE_JOBS=["LEASE"])
def test_settings_that_are_no_dict_are_one_error() -> None:
    assert told(found()) == [
        (
            "durable_jobs.E002",
            "DURABLE_JOBS is not a dict.",
            "Write DURABLE_JOBS = {}, or leave it out; every setting has a default.",
        )
    ]


@override_settings(DURABLE_JOBS={"DRIVER": "shop.NoStore"})
def test_a_driver_that_cannot_be_imported_is_named() -> None:
    assert told(found()) == [
        (
            "durable_jobs.E002",
            "DURABLE_JOBS[\"DRIVER\"] names 'shop.NoStore', which cannot be imported "
            "(No module named 'shop').",
            "Use one of postgres, memory, or the dotted path of a store class.",
        )
    ]


@pytest.mark.parametrize("key", ["DATABASE", "LISTEN_DATABASE"])
def test_an_alias_that_is_not_there_is_named_with_its_setting(key: str) -> None:
    with override_settings(DURABLE_JOBS={key: "jobs"}):
        assert told(found()) == [
            (
                "durable_jobs.E003",
                "Durable jobs are told to use the database 'jobs', which is not in DATABASES.",
                f'Add it there, or change DURABLE_JOBS["{key}"].',
            )
        ]


@pytest.fixture
def sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more alias, as a project has that starts with Django's default database."""
    plain = {**connections.settings["default"], "ENGINE": "django.db.backends.sqlite3"}
    monkeypatch.setitem(connections.settings, "plain", {**plain, "NAME": ":memory:", "OPTIONS": {}})


@pytest.mark.usefixtures("sqlite")
@pytest.mark.parametrize("key", ["DATABASE", "LISTEN_DATABASE"])
def test_another_database_than_postgresql_is_an_error_at_every_command(key: str) -> None:
    with override_settings(DURABLE_JOBS={key: "plain"}):
        assert told(found()) == [
            (
                "durable_jobs.E004",
                "Durable jobs need PostgreSQL, but the database 'plain' is sqlite.",
                f'Point DURABLE_JOBS["{key}"] at a PostgreSQL alias of DATABASES.',
            )
        ]
        with pytest.raises(SystemCheckError, match=r"durable_jobs\.E004"):
            call_command("check", tags=["compatibility"])


@pytest.mark.usefixtures("sqlite")
@override_settings(DURABLE_JOBS={"DATABASE": "plain", "DRIVER": "memory"})
def test_the_memory_driver_needs_no_postgresql() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("level", "is_warned"),
    [
        (IsolationLevel.READ_COMMITTED, False),
        (IsolationLevel.REPEATABLE_READ, True),
        (IsolationLevel.SERIALIZABLE, True),
    ],
)
def test_a_database_that_isolates_too_much_is_a_warning(
    level: IsolationLevel, is_warned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An alias for each, since a connection is kept under its alias.
    alias = level.name.lower()
    plain = {**connections.settings["default"], "OPTIONS": {"isolation_level": level}}
    monkeypatch.setitem(connections.settings, alias, plain)
    warning = (
        "durable_jobs.W002",
        f"The database '{alias}' of the durable jobs isolates above READ COMMITTED: claims and "
        "enqueues that meet fail there and have to be tried again.",
        "Leave 'isolation_level' out of its OPTIONS, or give the jobs an alias of their own in "
        'DURABLE_JOBS["DATABASE"].',
    )
    with override_settings(DURABLE_JOBS={"DATABASE": alias}):
        assert told(found()) == ([warning] if is_warned else [])


def with_an_unknown_input(order: Missing) -> None: ...


def with_an_unknown_result() -> Missing: ...


def body() -> None: ...


def test_a_job_whose_types_cannot_be_resolved_is_named_with_its_place() -> None:
    declared = job(name="shop.later")(with_an_unknown_input)
    job(name="shop.result")(with_an_unknown_result)

    messages = found()

    assert told(messages) == [
        (
            "durable_jobs.E005",
            "Job 'shop.later' has parameter 'order', whose type hint 'Missing' cannot be "
            "resolved: NameError: name 'Missing' is not defined.",
            "Import the type at module level, outside `if TYPE_CHECKING`.",
        ),
        (
            "durable_jobs.E005",
            "Job 'shop.result' has the return annotation 'Missing', which cannot be resolved: "
            "NameError: name 'Missing' is not defined.",
            "Import the type at module level, outside `if TYPE_CHECKING`.",
        ),
    ]
    assert declared.source in str(messages[0])
    assert f"{__file__}:" in str(messages[0])


@override_settings(DURABLE_JOBS={"QUEUES": {"default": {}, "slow": {}}})
def test_a_job_on_a_queue_that_is_not_listed_is_named() -> None:
    job(name="shop.mail", queue="mail")(body)

    assert told(found()) == [
        (
            "durable_jobs.E006",
            "Job 'shop.mail' names queue 'mail', which is not declared.",
            "Declared queues: 'default', 'slow'. "
            "Add 'mail' to DURABLE_JOBS[\"QUEUES\"] or change the job.",
        )
    ]


@override_settings(DURABLE_JOBS={"QUEUES": ["mail"]})
def test_a_broken_list_of_queues_is_one_error_and_not_one_for_each_job() -> None:
    job(name="shop.mail", queue="mail")(body)

    assert [one.id for one in found()] == ["durable_jobs.E002"]


def test_a_name_declared_twice_stops_the_project_before_any_check(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two jobs under one name only one could run, and which one would be chance."""
    for number in (1, 2):
        (tmp_path / f"twice_{number}.py").write_text(
            f"from django_durable_jobs import job\n\n@job(name='shop.twice')\n"
            f"def twice_{number}() -> None: ...\n"
        )
    monkeypatch.syspath_prepend(str(tmp_path))
    __import__("twice_1")

    with pytest.raises(JobNameTaken) as refused:
        __import__("twice_2")

    assert str(refused.value) == (
        "Job name 'shop.twice' is declared twice: "
        f"by twice_1.twice_1 ({tmp_path}/twice_1.py:3) "
        f"and by twice_2.twice_2 ({tmp_path}/twice_2.py:3). "
        'Give one of them another name with @job(name="...").'
    )


@pytest.mark.parametrize("is_installed", [True, False])
def test_another_app_with_the_same_command_is_a_warning(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, is_installed: bool
) -> None:
    (tmp_path / "django_extensions").mkdir()
    (tmp_path / "django_extensions" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    more = ["django_extensions"] if is_installed else []

    with override_settings(INSTALLED_APPS=["django_durable_jobs", *more]):
        messages = check_command_clash(None)

    assert told(messages) == (
        [
            (
                "durable_jobs.W001",
                "django_extensions also has a management command 'runjobs'; which of the two "
                "runs depends on the order of INSTALLED_APPS.",
                "Start the worker with 'manage.py run_durable_jobs', which is the same command.",
            )
        ]
        if is_installed
        else []
    )


def test_the_checks_ask_no_database() -> None:
    """They run where none is up yet: while an image is built, in a test without a database."""

    def check() -> list[object]:
        assert found() == []
        return [one.connection for one in connections.all(initialized_only=True)]

    # A thread has connections of its own, and none at its start.
    with override_settings(DURABLE_JOBS={"LISTEN_DATABASE": "other"}), ThreadPoolExecutor(1) as one:
        assert one.submit(check).result() == [None, None]


def test_jobs_are_found_in_the_module_that_the_settings_name(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = tmp_path / "bakery"
    app.mkdir()
    (app / "__init__.py").touch()
    (app / "background.py").write_text(
        "from django_durable_jobs import job\n\n@job\ndef bake() -> None: ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    with (
        override_settings(DURABLE_JOBS={"JOBS_MODULE": "background"}),
        override_settings(INSTALLED_APPS=["bakery", "django_durable_jobs"]),
    ):
        assert get_job("bakery.bake") is not None
