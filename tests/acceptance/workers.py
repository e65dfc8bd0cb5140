"""``runjobs`` as an operator starts it: a process tree of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote, urlencode
from uuid import uuid4

from django.db import connection

from django_durable_jobs.models import Job, JobWorker

from .conditions import until

ROOT = Path(__file__).resolve().parents[2]


def database_url() -> str:
    """The address of the database that this test uses, for another process."""
    server = connection.settings_dict
    access = quote(server["USER"], safe="")
    if server["PASSWORD"]:
        access += ":" + quote(server["PASSWORD"], safe="")
    # In the query, where a socket's folder can stand as well as a host's name.
    where = {"host": server["HOST"], "port": server["PORT"]}
    query = urlencode({key: value for key, value in where.items() if value})
    return f"postgresql://{access}@/{quote(server['NAME'])}?{query}"


class Workers:
    """One supervisor and its children.

    Each carries a mark in its environment, by which it is found also when it has lost its parent.
    """

    def __init__(self, log: Path, *arguments: str, environment: dict[str, str]) -> None:
        self.log = log
        self._mark = f"ACCEPTANCE_TREE={uuid4()}"
        with log.open("ab") as out:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "django", "runjobs", *arguments],
                cwd=ROOT,
                env={
                    **os.environ,
                    "DATABASE_URL": database_url(),
                    "DJANGO_SETTINGS_MODULE": "tests.acceptance.settings",
                    "PYTHONPATH": str(ROOT),
                    "PYTHONUNBUFFERED": "1",
                    **environment,
                    **dict([self._mark.split("=")]),
                },
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.pid = self._popen.pid

    def wait_until_ready(self, processes: int = 1) -> Workers:
        """Return when that many children have said that they are alive."""
        until(
            lambda: self._popen.poll() is not None or len(self.registered()) >= processes,
            seconds=40,
            otherwise=self.said,
        )
        assert self._popen.poll() is None, self.said()
        return self

    def registered(self) -> set[int]:
        """Children that stand in the registry."""
        return self.children() & set(JobWorker.objects.values_list("pid", flat=True))

    def children(self) -> set[int]:
        return self.alive() - {self.pid}

    def busy(self) -> set[int]:
        """Children that run a job right now."""
        holders = Job.objects.filter(state="running").values("worker_id")
        pids = JobWorker.objects.filter(worker_id__in=holders).values_list("pid", flat=True)
        return self.children() & set(pids)

    def alive(self) -> set[int]:
        """Every process of this tree that is not dead."""
        mark = self._mark.encode()
        return {
            int(environ.parent.name)
            for environ in Path("/proc").glob("[0-9]*/environ")
            if mark in _read(environ).split(b"\0")
        }

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    def exit_status(self, *, seconds: float) -> int:
        """Wait for the supervisor's end."""
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"Not ended within {seconds:g} s.\n{self.said()}") from None

    def stop(self) -> int:
        """Ask for the end as an operator does, and wait for it."""
        if self._popen.poll() is None:
            self.signal(signal.SIGTERM)
        return self.exit_status(seconds=30)

    def kill_supervisor(self) -> None:
        """SIGKILL the supervisor; its children find out by themselves."""
        self._popen.kill()
        self._popen.wait()

    def kill_all(self) -> None:
        """SIGKILL the whole tree, as the loss of the machine would."""
        for pid in self.alive():
            kill(pid)
        self._popen.wait()


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it was faster


def _read(environ: Path) -> bytes:
    """The environment of a process; nothing for one that is dead or another user's."""
    try:
        return environ.read_bytes()
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return b""
