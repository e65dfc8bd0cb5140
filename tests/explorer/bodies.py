"""The bodies of the reference flows, each as a plain and as an ``async def`` function."""

from __future__ import annotations

from django_durable_jobs import AsyncJobContext, JobContext, Retry, job
from django_durable_jobs.testing.explorer import effect, note

AGAIN = Retry(attempts=5, delay="1s", jitter="none")
CHILDREN = 50
AT_ONCE = 8


# -- what steps do


def charge(order_id: int) -> str:
    return f"payment-{order_id}"


async def charge_async(order_id: int) -> str:
    return charge(order_id)


def record(order_id: int, payment: str) -> int:
    effect(f"recorded {payment}")
    return order_id


def pack(order_id: int) -> str:
    effect(f"packed {order_id}")
    return f"parcel-{order_id}"


def reserve(order_id: int) -> str:
    return f"stock-{order_id}"


def print_invoice(order_id: int) -> int:
    effect(f"invoiced {order_id}")
    return order_id


def ask_gateway(ctx: JobContext | AsyncJobContext) -> str:
    """Busy at the first two attempts."""
    if ctx.attempt < 3:
        raise ConnectionError("the gateway is busy")
    return "answered"


# -- order: charge, atomic record, sleep, approval, child


@job(name="explorer.ship", retry=AGAIN)
def ship(ctx: JobContext, order_id: int) -> str:
    return ctx.step.atomic("pack", pack, order_id)


@job(name="explorer.order", retry=AGAIN)
def order(ctx: JobContext, order_id: int) -> dict[str, str]:
    payment = ctx.step.run("charge", charge, order_id)
    ctx.step.atomic("record", record, order_id, payment)
    ctx.step.sleep("cool off", "1h")
    approval = ctx.step.wait_for_event("approval", event="explorer.approved", key=str(order_id))
    assert approval is not None
    parcel = ctx.step.call("ship", ship, order_id=order_id)
    return {"payment": payment, "by": approval.payload["by"], "parcel": parcel}


@job(name="explorer.order_async", retry=AGAIN)
async def order_async(ctx: AsyncJobContext, order_id: int) -> dict[str, str]:
    payment = await ctx.step.run("charge", charge_async, order_id)
    await ctx.step.atomic("record", record, order_id, payment)
    await ctx.step.sleep("cool off", "1h")
    approval = await ctx.step.wait_for_event(
        "approval", event="explorer.approved", key=str(order_id)
    )
    assert approval is not None
    parcel = await ctx.step.call("ship", ship, order_id=order_id)
    return {"payment": payment, "by": approval.payload["by"], "parcel": parcel}


# -- timeout: an event that never comes


@job(name="explorer.remind", retry=AGAIN)
def remind(ctx: JobContext, order_id: int) -> str:
    answer = ctx.step.wait_for_event("answer", event="explorer.never", timeout="3d")
    assert answer is None
    ctx.step.atomic("remind", record, order_id, "reminder")
    return "reminded"


@job(name="explorer.remind_async", retry=AGAIN)
async def remind_async(ctx: AsyncJobContext, order_id: int) -> str:
    answer = await ctx.step.wait_for_event("answer", event="explorer.never", timeout="3d")
    assert answer is None
    await ctx.step.atomic("remind", record, order_id, "reminder")
    return "reminded"


# -- fan-out: fifty children, so many at once


@job(name="explorer.count", retry=AGAIN)
def count(number: int) -> int:
    note("counted", str(number))
    return number * number


@job(name="explorer.count_async", retry=AGAIN)
async def count_async(number: int) -> int:
    note("counted", str(number))
    return number * number


@job(name="explorer.fan_out", retry=AGAIN)
def fan_out(ctx: JobContext) -> int:
    inputs = [{"number": number} for number in range(CHILDREN)]
    squares = ctx.step.map("count", count, inputs, concurrency=AT_ONCE)
    assert squares == [number * number for number in range(CHILDREN)]
    return sum(squares)


@job(name="explorer.fan_out_async", retry=AGAIN)
async def fan_out_async(ctx: AsyncJobContext) -> int:
    inputs = [{"number": number} for number in range(CHILDREN)]
    squares = await ctx.step.map("count", count_async, inputs, concurrency=AT_ONCE)
    assert squares == [number * number for number in range(CHILDREN)]
    return sum(squares)


# -- parallel: branches side by side, one of which waits


@job(name="explorer.parallel", retry=AGAIN)
def parallel(ctx: JobContext, order_id: int) -> list[str]:
    def wait() -> str:
        ctx.step.sleep("dry", "10m")
        return ctx.step.run("look", reserve, order_id)

    stock, invoice, look = ctx.step.gather(
        lambda: ctx.step.run("reserve", reserve, order_id),
        lambda: str(ctx.step.atomic("invoice", print_invoice, order_id)),
        wait,
    )
    return [stock, invoice, look]


@job(name="explorer.parallel_async", retry=AGAIN)
async def parallel_async(ctx: AsyncJobContext, order_id: int) -> list[str]:
    async def invoice() -> str:
        return str(await ctx.step.atomic("invoice", print_invoice, order_id))

    async def wait() -> str:
        await ctx.step.sleep("dry", "10m")
        return await ctx.step.run("look", reserve, order_id)

    return await ctx.step.gather(ctx.step.run("reserve", reserve, order_id), invoice(), wait())


# -- retries: a step that fails at first, under a timeout of its own


@job(name="explorer.retries", retry=Retry(attempts=8, delay="1s", jitter="none"))
def retries(ctx: JobContext, order_id: int) -> str:
    payment = ctx.step.run("charge", charge, order_id)
    answer = ctx.step.options(timeout="5s").run("ask", ask_gateway, ctx)
    ctx.step.options(timeout="5s").atomic("record", record, order_id, payment)
    return answer


@job(name="explorer.retries_async", retry=Retry(attempts=8, delay="1s", jitter="none"))
async def retries_async(ctx: AsyncJobContext, order_id: int) -> str:
    payment = await ctx.step.run("charge", charge_async, order_id)
    answer = await ctx.step.options(timeout="5s").run("ask", ask_gateway, ctx)
    await ctx.step.options(timeout="5s").atomic("record", record, order_id, payment)
    return answer


# -- small ones, on which seeded bugs are looked for


@job(name="explorer.steps", retry=AGAIN)
def steps(ctx: JobContext, order_id: int) -> str:
    payment = ctx.step.run("charge", charge, order_id)
    stock = ctx.step.run("reserve", reserve, order_id)
    ctx.step.atomic("record", record, order_id, payment)
    return f"{payment} {stock}"


@job(name="explorer.wait", retry=AGAIN)
def wait(ctx: JobContext, order_id: int) -> str:
    approval = ctx.step.wait_for_event("approval", event="explorer.approved", key=str(order_id))
    assert approval is not None
    return str(approval.payload["by"])
