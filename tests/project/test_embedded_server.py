"""The private PostgreSQL: what a person who has none running is given."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from example_project import postgres

ROOT = Path(__file__).resolve().parents[2]

# Answers the address and then does as told by the rest of the program.
PROGRAM = """
import sys
from pathlib import Path
from example_project import postgres
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
print(postgres.start(folder, durable=False), flush=True)
"""


@pytest.fixture
def without_address(monkeypatch):
    monkeypatch.delenv("DATABASE_URL")


def run_program(rest: str, *arguments: str) -> subprocess.Popen[str]:
    """Start it as a terminal would: as the leader of a group of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM + rest, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def line_from(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


def server_of(url: str) -> int:
    """Return the process id of the server's first process."""
    folder = str(conninfo_to_dict(url)["host"])
    return int(Path(folder, ".s.PGSQL.5432.lock").read_text().splitlines()[0])


def has_ended(pid: int) -> bool:
    """Tell whether the process is gone; raises after a while if it is not."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        readable, _, _ = select.select([descriptor], [], [], 30)
    finally:
        os.close(descriptor)
    return bool(readable)


def test_the_address_in_the_environment_wins(monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://db.example/shop")

    assert postgres.start() == "postgresql://db.example/shop"


@pytest.mark.parametrize(
    "ending",
    ["", "sys.exit(1)", "import os; os.kill(os.getpid(), 9)"],
    ids=["return", "exit", "kill"],
)
def test_the_server_ends_with_the_process_that_started_it(ending, without_address):
    with run_program(f"sys.stdin.readline()\n{ending}") as program:
        url = line_from(program)
        pid = server_of(url)
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT current_database()").fetchone() == ("durable_jobs",)
        program.communicate("go on\n", timeout=60)

    assert has_ended(pid)


def test_ctrl_c_stops_the_server_after_its_user(without_address):
    """Else a worker could not settle what it is about to finish."""
    rest = """
import psycopg
connection = psycopg.connect(postgres.start(), autocommit=True)
try:
    print("waiting", flush=True)
    sys.stdin.readline()
except KeyboardInterrupt:
    print(connection.execute("SELECT 'still there'").fetchone()[0], flush=True)
"""
    with run_program(rest) as program:
        pid = server_of(line_from(program))
        assert line_from(program) == "waiting"
        # As a terminal does: to the whole group.
        os.killpg(program.pid, signal.SIGINT)
        said, _ = program.communicate(timeout=60)

    assert said == "still there\n"
    assert has_ended(pid)


def test_a_kept_folder_keeps_its_data_and_serves_one_at_a_time(tmp_path, without_address):
    tmp_path.chmod(0o755)
    folder = str(tmp_path / "kept")
    with run_program("sys.stdin.readline()", folder) as first:
        url = line_from(first)
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
        with run_program("", folder) as second:
            _, refusal = second.communicate(timeout=60)
        first.communicate("go on\n", timeout=60)
    with run_program("sys.stdin.readline()", folder) as third:
        with psycopg.connect(line_from(third)) as connection:
            assert connection.execute("SELECT number FROM kept").fetchone() == (7,)
        third.communicate("go on\n", timeout=60)

    assert second.returncode != 0
    assert refusal.splitlines()[-1] == (
        f"example_project.postgres.ServerNotStarted: Another process is running the embedded "
        f"PostgreSQL in {folder}. Stop it first, or set DATABASE_URL to a PostgreSQL server."
    )
