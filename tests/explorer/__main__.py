"""``make explore``: the crash explorer on every reference flow, several at a time.

Each explorer is a process with a database of its own; all are on the embedded PostgreSQL,
or on the server of DATABASE_URL.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Protocol

from tqdm import tqdm

from example_project import postgres

SIDE_BY_SIDE = 3
"""An explorer waits for its server half of the time."""

KILLS = 20
"""For each of the two bodies of a flow, so 40 for a flow."""

IS_FULL = os.environ.get("FULL", "") not in ("", "0")


class Bar(Protocol):
    """What is used of tqdm's."""

    n: float
    total: float | None

    def set_description(self, desc: str) -> None: ...
    def refresh(self) -> object: ...


def main() -> int:
    options = read_arguments()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    if options.serve is not None:
        return serve(options)
    os.environ["DATABASE_URL"] = postgres.start(None, durable=False)
    try:
        return explore(options)
    finally:
        postgres.stop()


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make explore", description="FULL=1 leaves nothing out.")
    parser.add_argument("--flow", help="only this one")
    parser.add_argument("--boundary", type=int, help="disturb it only there")
    parser.add_argument("--fault", help="and only so: drop, lost-answer, error, kill, lapse, …")
    parser.add_argument("--kills", type=int, default=KILLS, help="processes killed for each body")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


# -- the process that was started


def explore(options: argparse.Namespace) -> int:
    print(f"seed {options.seed}", flush=True)
    names = [options.flow] if options.flow else longest_first()
    servers = [Server(number, options) for number in range(min(SIDE_BY_SIDE, len(names)))]
    left = list(reversed(names))
    results: list[dict[str, Any]] = []
    lock = threading.Lock()

    def keep_busy(server: Server) -> None:
        with closing(server), bar(server.number) as shown:
            while True:
                with lock:
                    if not left:
                        return
                    name = left.pop()
                result = server.explore(name, shown)
                with lock:
                    results.append(result)
                    tqdm.write(result["text"], file=sys.stdout)
                    sys.stdout.flush()

    threads = [threading.Thread(target=keep_busy, args=[server]) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(results) < len(names):
        print("An explorer ended before it was done; see above.", file=sys.stderr)
        return 2
    violations = sum(result["violations"] for result in results)
    for result in results:
        if result["report"]:
            print(f"\n{result['report']}")
    boundaries = sum(result["boundaries"] for result in results)
    print(f"explored {boundaries} boundaries in {len(results)} flows: {violations} violations")
    return 1 if violations else 0


def longest_first() -> list[str]:
    return [
        f"{name}{kind}"
        for name in ("fan-out", "order", "retries", "timeout", "parallel")
        for kind in ("", "-async")
    ]


@contextmanager
def bar(position: int) -> Iterator[Bar]:
    """On a terminal only."""
    with tqdm(position=position, disable=None, leave=False, unit="run") as shown:
        yield shown


class Server:
    """A process that explores one flow after another."""

    def __init__(self, number: int, options: argparse.Namespace) -> None:
        self.number = number
        command = [sys.executable, "-m", "tests.explorer", f"--serve={number}"]
        command += [f"--seed={options.seed}", f"--kills={options.kills}"]
        if options.boundary is not None:
            command.append(f"--boundary={options.boundary}")
        if options.fault is not None:
            command.append(f"--fault={options.fault}")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait()

    def explore(self, name: str, shown: Bar) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        shown.set_description(name)
        for line in self._process.stdout:
            said: dict[str, Any] = json.loads(line)
            if "text" in said:
                return said
            shown.n, shown.total = said["done"], said["of"]
            shown.refresh()
        raise RuntimeError(f"The explorer of flow '{name}' ended with {self._process.wait()}.")


# -- the explorers


def serve(options: argparse.Namespace) -> int:
    """Explore the flows that standard input names, on a database of its own."""
    import django

    django.setup()
    from django.db import connection

    from django_durable_jobs.testing.explorer import Explorer, report
    from tests.explorer.flows import FLOWS

    kept = connection.settings_dict["NAME"]
    connection.settings_dict["TEST"]["NAME"] = f"explorer_{options.serve}"
    connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        for line in sys.stdin:
            with Explorer(
                kills=None if IS_FULL else options.kills,
                seed=options.seed,
                is_full=IS_FULL,
                again=again,
                progress=lambda done, of: say(done=done, of=of),
            ) as explorer:
                found = explorer.explore(
                    FLOWS[line.strip()], boundary=options.boundary, fault=options.fault
                )
            say(
                text=str(found),
                boundaries=found.boundaries,
                violations=len(found.violations),
                report=report(found.violations),
            )
    finally:
        connection.creation.destroy_test_db(kept, verbosity=0)
    return 0


def again(flow: str, boundary: int, fault: str) -> str:
    return f'make explore ARGS="--flow {flow} --boundary {boundary} --fault {fault}"'


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    sys.exit(main())
