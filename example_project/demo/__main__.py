"""``python -m example_project.demo``, or ``make demo``. With ``ONCE=1`` it ends by itself."""

from __future__ import annotations

import os
import signal
import sys

from example_project import postgres

from .processes import DemoFailed

# For watching: a killed worker is noticed, and its orders go on, within seconds.
ENVIRONMENT = {
    "JOBS_LEASE": "3s",
    "JOBS_GRACE": "5s",
    "SHOP_GATEWAY_SECONDS": "1.2",
    "SHOP_COOL_OFF": "1s",
    "SHOP_PACKING_TIME": "1s",
    # The processes' log lines go to files; these are for the reader of those.
    "PYTHONUNBUFFERED": "1",
}


def main() -> int:
    once = os.environ.get("ONCE", "") not in ("", "0")
    # Not whatever project the terminal was last used for.
    os.environ["DJANGO_SETTINGS_MODULE"] = "example_project.settings"
    os.environ["DEBUG"] = "1"
    for key, value in ENVIRONMENT.items():
        os.environ.setdefault(key, value)
    # A closed terminal and a polite kill end the demo as Ctrl-C does.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    try:
        if not os.environ.get("DATABASE_URL"):
            print("Starting a private PostgreSQL", flush=True)
        os.environ["DATABASE_URL"] = url = postgres.start()
        if not url.startswith(("postgres://", "postgresql://")):
            raise DemoFailed(
                "DATABASE_URL is not the address of a PostgreSQL server, such as "
                "postgresql://me:secret@localhost/shop."
            )

        import django

        django.setup()
        from .story import run

        return run(once=once)
    except (DemoFailed, postgres.ServerNotStarted) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped.")
        # Without ONCE there is no other end; with it, nothing was shown.
        return 130 if once else 0
    finally:
        # From here on every process is ours no more but the server, whose end is quick.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        postgres.stop()


if __name__ == "__main__":
    sys.exit(main())
