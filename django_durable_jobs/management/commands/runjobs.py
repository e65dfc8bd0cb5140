"""``manage.py runjobs``: run jobs until told to stop."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from django_durable_jobs.conf import settings
from django_durable_jobs.durations import parse_duration
from django_durable_jobs.exceptions import DurationInvalid
from django_durable_jobs.jobs import declared_queues
from django_durable_jobs.store import get_store
from django_durable_jobs.supervisor import Supervisor, SupervisorOptions
from django_durable_jobs.worker.__main__ import configure_log

DEFAULT_SLOTS = 4


class Command(BaseCommand):
    """A supervisor and its workers.

    Exit codes: 0 when every worker ended in order, 1 when one had to be killed or the
    command was called wrongly.
    """

    help = "Runs jobs: a supervisor and its worker processes. Stop it with SIGTERM or Ctrl-C."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--processes", type=int, default=1, help="Worker processes (1).")
        parser.add_argument(
            "--threads",
            type=int,
            default=DEFAULT_SLOTS,
            help=f"Jobs at once in each process ({DEFAULT_SLOTS}).",
        )
        parser.add_argument(
            "--queues", help="Queues to serve, separated by commas; all declared ones if omitted."
        )
        parser.add_argument(
            "--grace", help="How long a stop waits for running jobs, such as 30s; setting GRACE."
        )
        parser.add_argument("--burst", action="store_true", help="End when no job is due any more.")

    def handle(self, *args: Any, **options: Any) -> None:
        if not os.environ.get("DJANGO_SETTINGS_MODULE"):
            raise CommandError(
                "Workers are started as processes of their own and need a settings module: set "
                "DJANGO_SETTINGS_MODULE."
            )
        if not get_store().features.shared:
            raise CommandError(
                f"The driver '{settings.DRIVER}' keeps jobs in the memory of one process, where "
                'no worker can see them. Set DURABLE_JOBS["DRIVER"] to "postgres".'
            )
        is_loud = options["verbosity"] > 0
        log = {0: "ERROR", 1: "INFO"}.get(options["verbosity"], "DEBUG")
        configure_log(log)
        supervisor = Supervisor(
            SupervisorOptions(
                processes=_at_least_one("--processes", options["processes"]),
                slots=_at_least_one("--threads", options["threads"]),
                queues=_queues(options["queues"]),
                grace=_grace(options["grace"]),
                burst=options["burst"],
                log=log,
                say=self._say if is_loud else lambda line: None,
            )
        )
        sys.exit(supervisor.run())

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def _at_least_one(option: str, value: int) -> int:
    if value < 1:
        raise CommandError(f"{option} must be at least 1.")
    return value


def _queues(given: str | None) -> tuple[str, ...]:
    declared = declared_queues()
    if given is None:
        return declared
    queues = tuple(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))
    if not queues:
        raise CommandError("--queues names no queue.")
    unknown = [queue for queue in queues if queue not in declared]
    if unknown:
        raise CommandError(
            f"Queue '{unknown[0]}' is not declared. Declared queues: {', '.join(declared)}."
        )
    return queues


def _grace(given: str | None) -> timedelta:
    if given is None:
        return settings.GRACE
    try:
        return parse_duration(float(given) if given.isdigit() else given, subject="--grace")
    except DurationInvalid as error:
        raise CommandError(str(error)) from error
