"""A command and all that it starts."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, urlencode
from uuid import uuid4

from django.db import connection

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


class ProcessTree:
    """A started command; its output goes to *log*.

    Each of its processes carries a mark in its environment, by which it is found also when it has
    lost its parent.
    """

    def __init__(self, log: Path, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.log = log
        name, value = "ACCEPTANCE_TREE", str(uuid4())
        self._mark = f"{name}={value}".encode()
        with log.open("ab") as out:
            self._popen = subprocess.Popen(
                command,
                cwd=ROOT,
                env={
                    **os.environ,
                    "DATABASE_URL": database_url(),
                    "PYTHONPATH": str(ROOT),
                    "PYTHONUNBUFFERED": "1",
                    **environment,
                    name: value,
                },
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.pid = self._popen.pid

    @property
    def has_ended(self) -> bool:
        """Whether the command itself has."""
        return self._popen.poll() is not None

    def alive(self) -> set[int]:
        """Every process of this tree that is not dead."""
        return {
            int(folder.name)
            # Only the folders: a longer pattern looks into each, and fails on one that is gone.
            for folder in Path("/proc").glob("[0-9]*")
            if self._mark in _read(folder / "environ").split(b"\0")
        }

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    def exit_status(self, *, seconds: float) -> int:
        """Wait for the command's end."""
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"Not ended within {seconds:g} s.\n{self.said()}") from None

    def stop(self) -> int:
        """Ask for the end as an operator does, and wait for it."""
        if not self.has_ended:
            self.signal(signal.SIGTERM)
        return self.exit_status(seconds=30)

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
