"""Runs async bodies attempt by attempt, on the event loop of a worker."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from django_durable_jobs.drivers.memory import MemoryStore
from django_durable_jobs.drivers.postgres import PostgresStore
from django_durable_jobs.jobs.registry import scratch_registry
from django_durable_jobs.lifecycle.cancellation import CancelSignal
from django_durable_jobs.steps import AsyncJobContext
from django_durable_jobs.store import JobStore, install_store, reset_store
from django_durable_jobs.store.rows import ClaimedJob
from django_durable_jobs.worker.loop import BodyLoop
from tests.integration.steps.bench import REAL, Attempt, Bench

AsyncBody = Callable[[AsyncJobContext], Coroutine[Any, Any, Any]]


class AsyncBench(Bench):
    """The same bench; its bodies are ``async def``."""

    def __init__(self, store: JobStore) -> None:
        super().__init__(store)
        self.loop = BodyLoop()

    def close(self) -> None:
        self.loop.finish(20)
        super().close()

    def context(self, claimed: ClaimedJob, **options: Any) -> Any:
        plain: dict[str, Any] = {
            "store": self.worker_store,
            "user_store": self.store,
            "signal": CancelSignal(claimed.identity.job_id),
        }
        return AsyncJobContext(claimed, **{**plain, **options})

    def attempt(  # type: ignore[override]  # the bodies are of another kind
        self, body: AsyncBody, claimed: ClaimedJob | None = None, **options: Any
    ) -> Attempt:
        def run(ctx: Any) -> Any:
            return self.loop.run(lambda: body(ctx), ctx.signal)

        return super().attempt(run, claimed, **options)


@pytest.fixture(params=["memory", pytest.param("postgres", marks=REAL)])
def async_bench(request: pytest.FixtureRequest) -> Iterator[AsyncBench]:
    """A bench of async bodies on each driver."""
    store = MemoryStore() if request.param == "memory" else PostgresStore()
    install_store(store)
    bench = AsyncBench(store)
    with scratch_registry():
        yield bench
    bench.close()
    reset_store()
