"""``python -m django_durable_jobs.testing.explorer.victim``: started by the explorer only.

Serves the flow as worker processes do, and kills itself in front of a statement.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import signal
import sys
from contextlib import ExitStack, closing
from typing import Any, TextIO

import django


def main() -> None:
    """Take orders from standard input, and answer on standard output."""
    task = json.loads(sys.stdin.readline())
    with os.fdopen(os.dup(1), "w") as answers:
        # What bodies print is not for the one who reads the answers.
        os.dup2(2, 1)
        django.setup()
        logging.disable(logging.CRITICAL)
        from django.db import connections

        from django_durable_jobs.conf import settings
        from django_durable_jobs.jobs import get_job

        connections.settings[settings.DATABASE].update(task["database"])
        importlib.import_module(task["module"])
        if get_job(task["job"]) is None:
            raise SystemExit(
                f"Module '{task['module']}' does not declare job '{task['job']}' when it is "
                "imported: declare it at the top of the module, or explore with kills=0."
            )
        _say(answers, "ready")
        order = json.loads(sys.stdin.readline() or "null")
        if order is not None:
            _serve(task, order["at"], answers)


def _serve(task: dict[str, Any], at: int | None, answers: TextIO) -> None:
    from django_durable_jobs.store import get_store

    from .history import noted_steps
    from .machine import BurstWorker, World
    from .observer import Observer
    from .wire import Boundary, Wire

    def die(boundary: Boundary) -> None:
        _say(answers, json.dumps({"hit": [boundary.number, boundary.statement]}))
        os.kill(os.getpid(), signal.SIGKILL)

    wire = Wire(at, before=die)
    with ExitStack() as stack:
        observer = stack.enter_context(closing(Observer()))
        stack.enter_context(noted_steps())
        store = stack.enter_context(closing(get_store().for_worker()))
        worker = BurstWorker(task["worker_id"])
        world = World(observer, worker, events=task["events"], store=store)
        stack.enter_context(wire.tapped())
        world.go_on()
    _say(answers, json.dumps({"passed": len(wire.passed), "missed": world.missed}))


def _say(answers: TextIO, text: str) -> None:
    answers.write(f"{text}\n")
    answers.flush()


if __name__ == "__main__":
    main()
