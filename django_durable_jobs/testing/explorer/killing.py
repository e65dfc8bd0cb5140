"""Processes that run a flow and are killed in the middle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from django.conf import settings as django_settings
from django.db import connections

from django_durable_jobs import clock
from django_durable_jobs.conf import settings
from django_durable_jobs.jobs import JobDefinition

from .wire import Boundary

WARM: Final = 1
"""Processes that are started ahead, since a start takes longer than a run."""


@dataclass(frozen=True, slots=True)
class Death:
    """How a process ended.

    Attributes:
        hit: Where it killed itself; None if it came to the end of the flow.
        statements: How many it sent, if it came to the end.
        missed: Parked runs that only the look for missed wakes brought back in it.
        shift: How far it moved the clock.
    """

    hit: Boundary | None
    statements: int
    missed: int
    shift: timedelta


class Victims:
    """Starts processes (by exec) that serve the flow's database as workers do.

    Raises:
        RuntimeError: A process could not be started with this project's settings, or does not
            find the job.
    """

    def __init__(self, job: JobDefinition[..., Any], events: Mapping[str, Any]) -> None:
        self.application = f"durable-jobs-victim-{uuid4().hex[:12]}"
        if not django_settings.SETTINGS_MODULE:
            raise RuntimeError(
                "Settings that were made by configure() cannot be given to another process: "
                "explore with kills=0, or use a settings module."
            )
        self._job = job
        self._events = dict(events)
        self._folder = tempfile.TemporaryDirectory(prefix="durable-jobs-explorer-")
        self._shift_file = Path(self._folder.name, "shift")
        self._log = Path(self._folder.name, "log")
        self._waiting: list[subprocess.Popen[str]] = []

    def close(self) -> None:
        for process in self._waiting:
            process.kill()
            _end(process)
        self._folder.cleanup()

    def run(self, at: int | None) -> Death:
        """Let a process run the flow until it kills itself at boundary *at*, or to the end."""
        while len(self._waiting) <= WARM:
            self._waiting.append(self._start())
        process = self._waiting.pop(0)
        self._shift_file.write_text("0")
        try:
            self._expect_ready(process)
            said = self._tell(process, at)
        finally:
            code = _end(process)
        if "passed" not in said and "hit" not in said:
            raise RuntimeError(f"A worker process ended with {code}:\n{self._said()}")
        hit = Boundary(*said["hit"]) if "hit" in said else None
        return Death(
            hit=hit,
            statements=said.get("passed", 0),
            missed=said.get("missed", 0),
            shift=timedelta(seconds=float(self._shift_file.read_text() or 0)),
        )

    def _start(self) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": django_settings.SETTINGS_MODULE,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            clock.SHIFT_FILE: str(self._shift_file),
        }
        with self._log.open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "django_durable_jobs.testing.explorer.victim"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                text=True,
            )
        # On standard input: a database's password does not belong on a command line.
        self._send(process, self._task())
        return process

    def _task(self) -> dict[str, Any]:
        database = connections[settings.DATABASE].settings_dict
        options = {**database["OPTIONS"], "application_name": self.application}
        keys = ("NAME", "HOST", "PORT", "USER", "PASSWORD")
        return {
            "database": {**{key: database[key] for key in keys}, "OPTIONS": options},
            "module": self._job.fn.__module__,
            "job": self._job.name,
            "events": self._events,
            "worker_id": self.application,
        }

    def _expect_ready(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"A worker process could not be started:\n{self._said()}")

    def _tell(self, process: subprocess.Popen[str], at: int | None) -> dict[str, Any]:
        """Give it the word; what it said until its end."""
        self._send(process, {"at": at})
        assert process.stdout is not None
        said: dict[str, Any] = {}
        for line in process.stdout:
            said |= json.loads(line)
        return said

    def _send(self, process: subprocess.Popen[str], message: Mapping[str, Any]) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
        except TypeError as error:
            raise RuntimeError(
                "The database's OPTIONS or the events are no JSON, so they cannot be given to "
                "another process: explore with kills=0."
            ) from error
        except BrokenPipeError:
            raise RuntimeError(f"A worker process ended early:\n{self._said()}") from None

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]


def _end(process: subprocess.Popen[str]) -> int:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    return process.wait()
