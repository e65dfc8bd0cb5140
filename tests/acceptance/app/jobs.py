from __future__ import annotations

import ctypes

from django_durable_jobs import JobContext, Retry, job
from tests.acceptance.conditions import until

from . import ledger

GATE = "the gate is open"


@job(name="acceptance.pass_gate", retry=Retry(attempts=5, delay="100ms"))
def pass_gate(ctx: JobContext, guest: str) -> str:
    """Last until the test opens the gate."""
    ledger.write(f"{guest} came")
    until(lambda: GATE in ledger.entries(), seconds=90)
    ledger.write(f"{guest} went")
    return guest


@job(name="acceptance.hold_gil")
def hold_gil(ctx: JobContext, microseconds: int) -> None:
    """Sleep in C without giving up the interpreter lock, as a badly written extension does."""
    ledger.write("began")
    ctypes.PyDLL(None).usleep(microseconds)
    ledger.write("ended")
