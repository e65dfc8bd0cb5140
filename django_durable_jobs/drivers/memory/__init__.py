"""The store in one process's memory: for a project's tests, and for a first look.

Claims, leases, fences, burial, waits and wakes really happen, by the same rules as on
PostgreSQL, and ``clock.move`` moves its time. What is not remembered:

- Nothing outlives the process, and no other process sees a job.
- A job enqueued, or an event published, stays when the caller's transaction rolls back:
  this store joins no database.
- ``atomic()`` keeps what the store alone can keep. Checkpoints written in the block
  appear together at its end, after the fences were checked once more, and not at all
  when it raises; acts given to ``on_commit`` likewise wait for the end. Effects of the
  body elsewhere are not undone.
"""

from .store import MemoryStore

__all__ = ["MemoryStore"]
