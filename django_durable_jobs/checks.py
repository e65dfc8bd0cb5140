"""System checks: each mis-setting has an id, a sentence and a remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Final

from django.apps import AppConfig, apps
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import connections
from django.utils.connection import ConnectionDoesNotExist

from .conf import SETTINGS, settings, unknown_keys
from .exceptions import QueueNotDeclared, SettingInvalid
from .jobs import registered_jobs
from .store.registry import find_driver

# As in libpq and psycopg, where higher isolates more.
_READ_COMMITTED: Final = 2


@register()
def check_settings(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """Every key of ``DURABLE_JOBS`` is known and its value can be read."""
    if not isinstance(getattr(django_settings, "DURABLE_JOBS", {}), Mapping):
        return [
            Error(
                "DURABLE_JOBS is not a dict.",
                hint="Write DURABLE_JOBS = {}, or leave it out; every setting has a default.",
                id="durable_jobs.E002",
            )
        ]
    found: list[CheckMessage] = [
        Error(
            f'DURABLE_JOBS["{key}"] is not a setting.',
            hint=f"Known settings: {', '.join(sorted(SETTINGS))}.",
            id="durable_jobs.E001",
        )
        for key in unknown_keys()
    ]
    for key in SETTINGS:
        try:
            getattr(settings, key)
        except SettingInvalid as error:
            found.append(Error(error.cause, hint=error.fix or None, id="durable_jobs.E002"))
    if not found:
        try:
            find_driver()
        except SettingInvalid as error:
            found.append(Error(error.cause, hint=error.fix or None, id="durable_jobs.E002"))
    return found


# Not tagged as a check of the database: those run only where --database names one, and this
# one opens no connection.
@register(Tags.compatibility)
def check_database(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """The jobs live on PostgreSQL."""
    found: list[CheckMessage] = []
    try:
        if settings.DRIVER != "postgres":
            return found
        keys = {settings.DATABASE: "DATABASE"}
        if settings.LISTEN_DATABASE is not None:
            keys.setdefault(settings.LISTEN_DATABASE, "LISTEN_DATABASE")
    except SettingInvalid:
        return found
    for alias, key in keys.items():
        try:
            vendor = connections[alias].vendor
        except ConnectionDoesNotExist:
            found.append(
                Error(
                    f"Durable jobs are told to use the database '{alias}', which is not in "
                    "DATABASES.",
                    hint=f'Add it there, or change DURABLE_JOBS["{key}"].',
                    id="durable_jobs.E003",
                )
            )
            continue
        if vendor != "postgresql":
            found.append(
                Error(
                    f"Durable jobs need PostgreSQL, but the database '{alias}' is {vendor}.",
                    hint=f'Point DURABLE_JOBS["{key}"] at a PostgreSQL alias of DATABASES.',
                    id="durable_jobs.E004",
                )
            )
        elif (connections[alias].settings_dict["OPTIONS"].get("isolation_level") or 0) > (
            _READ_COMMITTED
        ):
            found.append(
                Warning(
                    f"The database '{alias}' of the durable jobs isolates above READ COMMITTED: "
                    "claims and enqueues that meet fail there and have to be tried again.",
                    hint="Leave 'isolation_level' out of its OPTIONS, or give the jobs an alias of "
                    f'their own in DURABLE_JOBS["{key}"].',
                    id="durable_jobs.W002",
                )
            )
    return found


@register()
def check_jobs(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """Every declared job can be enqueued and run."""
    try:
        return [
            Error(
                problem.cause,
                hint=problem.fix or None,
                obj=definition.source,
                id="durable_jobs.E006"
                if isinstance(problem, QueueNotDeclared)
                else "durable_jobs.E005",
            )
            for definition in registered_jobs()
            for problem in definition.problems()
        ]
    except SettingInvalid:
        # The check of the settings names it.
        return []


@register()
def check_command_clash(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """Another app may bring a command named ``runjobs``."""
    if find_spec("django_extensions") is None or not apps.is_installed("django_extensions"):
        return []
    return [
        Warning(
            "django_extensions also has a management command 'runjobs'; which of the two runs "
            "depends on the order of INSTALLED_APPS.",
            hint="Start the worker with 'manage.py run_durable_jobs', which is the same command.",
            id="durable_jobs.W001",
        )
    ]
