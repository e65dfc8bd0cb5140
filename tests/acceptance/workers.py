"""``runjobs`` as an operator starts it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from django_durable_jobs.models import Job, JobWorker

from .conditions import until
from .process_tree import ProcessTree

# Short, so that a test sees leases lapse; long enough for a busy machine to renew them.
ENVIRONMENT = {
    "DJANGO_SETTINGS_MODULE": "tests.acceptance.settings",
    "JOBS_LEASE": "3s",
    "JOBS_GRACE": "20s",
    "SHOP_GATEWAY_SECONDS": "0.1",
    "SHOP_GATEWAY_FAILS_EVERY": "7",
    "SHOP_COOL_OFF": "200ms",
    "SHOP_PACKING_TIME": "200ms",
}


class Workers(ProcessTree):
    """One supervisor and its children."""

    def __init__(self, log: Path, *arguments: str, environment: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "django", "runjobs", *arguments]
        super().__init__(log, command, {**ENVIRONMENT, **environment})

    def wait_until_ready(self, processes: int = 1) -> Workers:
        """Return when that many children have said that they are alive."""
        until(
            lambda: self.has_ended or len(self.registered()) >= processes,
            seconds=40,
            otherwise=self.said,
        )
        assert not self.has_ended, self.said()
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

    def kill_supervisor(self) -> None:
        """SIGKILL the supervisor; its children find out by themselves."""
        self._popen.kill()
        self._popen.wait()
