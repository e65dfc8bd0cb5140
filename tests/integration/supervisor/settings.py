"""Settings of the worker processes that these tests start: the suite's, and jobs that kill."""

import os

from tests.settings import *  # noqa: F403 -- a settings module extends another this way
from tests.settings import INSTALLED_APPS as SUITES_APPS

INSTALLED_APPS = [*SUITES_APPS, "tests.integration.supervisor.app"]
DURABLE_JOBS = {"LEASE": os.environ.get("KILLERS_LEASE", "60s"), "KILL_GRACE": "1s"}
