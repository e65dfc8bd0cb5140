from __future__ import annotations

import os
from typing import Any

from django.apps import AppConfig

FORGET_STEPS = "ACCEPTANCE_FORGET_STEPS"
"""Set for a worker that is to be broken: it finds no finished step, so it replays none."""


class AcceptanceConfig(AppConfig):
    name = "tests.acceptance.app"
    label = "acceptance"

    def ready(self) -> None:
        if os.environ.get(FORGET_STEPS):
            from django_durable_jobs.drivers.postgres import PostgresStore

            def forget(store: Any, job_id: Any) -> list[Any]:
                return []

            PostgresStore.load_steps = forget  # type: ignore[assignment] # the seeded defect
