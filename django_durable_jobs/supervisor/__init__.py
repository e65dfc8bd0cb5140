"""One process tree: a supervisor that runs no body, and its workers.

The supervisor owns the signals, hears the wakes, looks at the store while the workers
are idle, and renews the leases of what its workers hold, so that a body which holds the
interpreter's lock in C code longer than a lease does not lose it. Workers claim, run and
settle. Each is started by exec and hangs on a socket pair of its own.

- A worker dies: its leases are ended at once and another one is told to rescue; a new
  worker is started, after a growing pause if they keep dying.
- A worker is stopped (SIGSTOP): it is not vouched for, and its leases lapse.
- The supervisor dies: each worker sees the end of its socket pair, stops claiming,
  cancels what runs, and exits.
- The database is away: one line says so, and everything is tried again.
"""

from .tree import Supervisor, SupervisorOptions

__all__ = ["Supervisor", "SupervisorOptions"]
