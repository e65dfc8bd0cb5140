from __future__ import annotations

import asyncio
import ctypes

from asgiref.sync import sync_to_async

from django_durable_jobs import AsyncJobContext, JobContext, Retry, job
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


@job(name="acceptance.walk", retry=Retry(attempts=5, delay="100ms"))
async def walk(ctx: AsyncJobContext, guest: str) -> str:
    """Steps before and behind one that lasts until the test opens the gate."""

    async def wait_at_the_gate() -> None:
        await sync_to_async(ledger.write)(f"{guest} at the gate")
        await sync_to_async(until)(lambda: GATE in ledger.entries(), seconds=90)

    await ctx.step.run("come", ledger.write, f"{guest} came")
    await ctx.step.gather(
        ctx.step.run("coat", ledger.write, f"{guest} left a coat"),
        ctx.step.run("hat", ledger.write, f"{guest} left a hat"),
    )
    await ctx.step.run("gate", wait_at_the_gate)
    await ctx.step.sleep("rest", "200ms")
    await ctx.step.run("go", ledger.write, f"{guest} went")
    return guest


@job(name="acceptance.wait_for_ever")
async def wait_for_ever() -> None:
    await sync_to_async(ledger.write)("began")
    try:
        await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        await sync_to_async(ledger.write)("cancelled")
        raise
