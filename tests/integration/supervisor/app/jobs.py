from __future__ import annotations

import os
import signal

from django_durable_jobs import JobContext, Retry, job

AT_ONCE = Retry(attempts=5, delay=0, jitter="none")


@job(name="killers.leave_a_child", retry=AT_ONCE)
def leave_a_child(ctx: JobContext) -> int:
    """Die on the first attempt, and leave a process that keeps all that this one had open."""
    if ctx.attempt == 1:
        if os.fork() == 0:
            signal.alarm(60)
            while True:
                signal.pause()
        os.kill(os.getpid(), signal.SIGKILL)
    return ctx.attempt


@job(name="killers.exit_in_peace", retry=AT_ONCE)
def exit_in_peace(ctx: JobContext) -> int:
    """End the process on the first attempt as if all was well."""
    if ctx.attempt == 1:
        os._exit(0)
    return ctx.attempt


@job(name="killers.wait_for_the_end", retry=AT_ONCE)
def wait_for_the_end(ctx: JobContext) -> None:
    """Last until the attempt is cancelled."""
    assert ctx.signal.wait(60)
    ctx.check()


@job(name="killers.count", retry=AT_ONCE)
def count(number: int) -> int:
    """Do nothing that could fail: it touches no database."""
    return number
