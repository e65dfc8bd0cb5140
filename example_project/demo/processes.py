"""The shop's processes, which end with the demo."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

MANAGE = Path(__file__).resolve().parent.parent / "manage.py"
STOP_SECONDS = 8
START_SECONDS = 30
USUAL_PORT = 8000


class DemoFailed(Exception):
    """The demo cannot go on; the message says why, in a sentence."""


class Process:
    """A command of ``manage.py``, in a session of its own: Ctrl-C reaches the demo alone."""

    def __init__(self, name: str, *arguments: str, folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name.replace(' ', '-')}.log"
        with self.log.open("ab") as log:
            self._popen = subprocess.Popen(
                [sys.executable, str(MANAGE), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.pid = self._popen.pid

    def check(self) -> None:
        """Raise DemoFailed if the process has ended."""
        status = self._popen.poll()
        if status is not None:
            raise DemoFailed(f"The {self.name} ended with status {status}. It said:\n{self.tail()}")

    def tail(self, lines: int = 8) -> str:
        said = self.log.read_text(errors="replace").splitlines()[-lines:]
        return "\n".join(f"  {line}" for line in said) or "  (nothing)"

    def ask_to_stop(self) -> None:
        if self._popen.poll() is None:
            self._popen.terminate()

    def started(self, pid: int) -> bool:
        """Whether *pid* is a process that this one started."""
        return _parents().get(pid) == self.pid

    def stop(self) -> None:
        """End it and all that it started: politely, and after STOP_SECONDS by force."""
        self.ask_to_stop()
        started = [pid for pid, parent in _parents().items() if parent == self.pid]
        try:
            self._popen.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            for pid in (self.pid, *started):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._popen.wait()


@contextlib.contextmanager
def shop(*, worker_processes: int) -> Iterator[tuple[Process, Process, str]]:
    """Run the web server and the workers; answer both, and the web server's address.

    Raises:
        DemoFailed: The web server does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="shop-") as place, contextlib.ExitStack() as stack:
        folder = Path(place)
        port = _free_port()
        web = Process("web server", "runserver", "--noreload", f"127.0.0.1:{port}", folder=folder)
        stack.callback(web.stop)
        workers = Process("worker", "runjobs", "--processes", str(worker_processes), folder=folder)
        stack.callback(workers.stop)
        stack.callback(_begin_to_stop, web)
        _wait_until_it_answers(web, port)
        yield web, workers, f"http://127.0.0.1:{port}"


def _begin_to_stop(web: Process) -> None:
    # Impatience must not leave a process behind; the stops that follow are bounded.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("\nStopping the web server and the workers", flush=True)
    web.ask_to_stop()


def _parents() -> dict[int, int]:
    """Return each process of this machine with the one that started it."""
    stats = Path("/proc").glob("[0-9]*/stat")
    parents: dict[int, int] = {}
    for stat in stats:
        # Gone between the listing and the look.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            # The name, in parentheses, may hold anything.
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    if not parents:
        # Where there is no /proc, there is a ps.
        command = ["ps", "-A", "-o", "pid=,ppid="]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        parents = {int(pid): int(parent) for pid, parent in map(str.split, listed.splitlines())}
    return parents


def _free_port() -> int:
    """Return the port that everybody knows, or another if it is taken."""
    for port in (USUAL_PORT, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise DemoFailed("There is no free port on 127.0.0.1 for the web server.")


def _wait_until_it_answers(web: Process, port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    page = "/admin/login/"
    while True:
        web.check()
        try:
            status = _status("127.0.0.1", port, page)
        except (OSError, http.client.HTTPException) as error:
            if time.monotonic() > deadline:
                raise DemoFailed(
                    f"The web server did not answer on port {port} within {START_SECONDS} s. "
                    f"It said:\n{web.tail()}"
                ) from error
        else:
            if status == http.HTTPStatus.OK:
                return
            raise DemoFailed(f"The web server answered {status} for {page}. It said:\n{web.tail()}")
        time.sleep(0.1)


def _status(host: str, port: int, page: str) -> int:
    with contextlib.closing(http.client.HTTPConnection(host, port, timeout=5)) as connection:
        connection.request("GET", page)
        return connection.getresponse().status
