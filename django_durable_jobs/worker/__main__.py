"""``python -m django_durable_jobs.worker FD OPTIONS``: started by the supervisor only."""

from __future__ import annotations

import json
import logging
import socket
import sys
from datetime import timedelta

import django


def main() -> int:
    """Set Django up and serve."""
    end = socket.socket(fileno=int(sys.argv[1]))
    # Programs that bodies start must not hold it: its end of file is this process's death.
    end.set_inheritable(False)
    options = json.loads(sys.argv[2])
    django.setup()
    # Imported after setup: jobs modules bring models.
    from .channel import Channel
    from .process import Worker, WorkerOptions

    if options["log"]:
        configure_log(options["log"])
    worker = Worker(
        WorkerOptions(
            worker_id=options["worker_id"],
            queues=tuple(options["queues"]),
            slots=options["slots"],
            grace=timedelta(seconds=options["grace"]),
            burst=options["burst"],
        ),
        Channel(end, may_block=True),
    )
    return worker.run()


def configure_log(level: str) -> None:
    """Show the package's log on standard error, unless the project configured it."""
    logger = logging.getLogger("django_durable_jobs")
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(level)


if __name__ == "__main__":
    sys.exit(main())
