#!/usr/bin/env python
"""Django's command line for the example shop; brings its own PostgreSQL if it is given none."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The embedded server's data lives here, so that the next command finds what this one wrote.
KEPT = ROOT / ".postgres" / "example"


def main() -> None:
    # Run as a script, this folder stands first on the path; its modules belong to a package.
    sys.path[0] = str(ROOT)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")

    from django.core.management import execute_from_command_line

    from example_project import postgres

    try:
        # By the environment, so that the processes which a command starts use the same server.
        os.environ["DATABASE_URL"] = postgres.start(KEPT)
    except postgres.ServerNotStarted as error:
        sys.exit(str(error))
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
