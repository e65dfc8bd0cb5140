"""A database that cannot hold jobs is named at the call, with what to change."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection, connections

from django_durable_jobs.drivers.postgres import PooledExecutor, PostgresStore
from django_durable_jobs.drivers.postgres.executor import DjangoExecutor
from django_durable_jobs.exceptions import SettingInvalid, StoreUnavailable
from django_durable_jobs.testing.conformance.given import enqueue

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("executor", [DjangoExecutor, PooledExecutor])
def test_an_alias_of_another_database_is_refused(executor, monkeypatch):
    plain = {**connections.settings["default"], "ENGINE": "django.db.backends.sqlite3"}
    monkeypatch.setitem(connections.settings, "plain", {**plain, "NAME": ":memory:", "OPTIONS": {}})

    with pytest.raises(SettingInvalid) as caught:
        executor("plain")

    assert str(caught.value) == (
        "DURABLE_JOBS[\"DATABASE\"] names 'plain', which is sqlite; durable jobs need PostgreSQL. "
        "Name a PostgreSQL alias of DATABASES."
    )


@pytest.mark.parametrize("executor", [DjangoExecutor, PooledExecutor])
def test_an_alias_that_is_not_there_is_refused(executor):
    with pytest.raises(SettingInvalid) as caught:
        executor("nowhere")

    assert str(caught.value) == (
        "DURABLE_JOBS[\"DATABASE\"] names 'nowhere', which is not in DATABASES. "
        "Add it there, or name another alias."
    )


@pytest.mark.django_db
def test_a_database_without_the_tables_says_how_to_make_them():
    with connection.cursor() as cursor:
        cursor.execute("alter table x_jobs rename to x_jobs_gone")

    with pytest.raises(StoreUnavailable) as caught:
        enqueue(PostgresStore())

    assert str(caught.value) == (
        "The jobs database 'default' lacks the tables of durable jobs. Add 'django_durable_jobs' "
        "to INSTALLED_APPS and run 'manage.py migrate' there."
    )


def test_settings_that_are_no_dict_reach_the_checks():
    """The app must get ready, or nobody would hear what is wrong."""
    script = (
        "import django; from django.conf import settings; "
        "from django.core.management import call_command; "
        "settings.configure(INSTALLED_APPS=['django_durable_jobs'], DURABLE_JOBS='x', "
        "DATABASES={'default': {'ENGINE': 'django.db.backends.postgresql'}}); "
        "django.setup(); call_command('check')"
    )
    environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}

    result = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )

    assert result.returncode == 1
    assert "durable_jobs.E002" in result.stderr
