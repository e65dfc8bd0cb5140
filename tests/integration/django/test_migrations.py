"""The tables on databases that hold no jobs: a project's other aliases, or tests without one."""

from __future__ import annotations

import os
import subprocess
import sys

SETTINGS = """
DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": {name!r}}}}}
INSTALLED_APPS = [
    "django.contrib.auth", "django.contrib.contenttypes", "django_durable_jobs",
]
DURABLE_JOBS = {{"DRIVER": "memory"}}
"""


def test_sqlite_is_migrated_where_the_memory_driver_holds_the_jobs(tmp_path):
    (tmp_path / "on_sqlite.py").write_text(SETTINGS.format(name=str(tmp_path / "db.sqlite3")))
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])

    def manage(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "django", *arguments, "--settings", "on_sqlite"],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=60,
        )

    migrated = manage("migrate", "--verbosity", "0")
    undone = manage("migrate", "durable_jobs", "zero", "--verbosity", "0")

    assert (migrated.returncode, migrated.stderr) == (0, "")
    assert (undone.returncode, undone.stderr) == (0, "")
