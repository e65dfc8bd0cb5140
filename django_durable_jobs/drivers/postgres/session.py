"""The store's hold on connections and transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from django.db import transaction

from django_durable_jobs.conf import settings
from django_durable_jobs.store.port import Features, Listener
from django_durable_jobs.store.rows import Wake

from .executor import DjangoExecutor, Executor, PooledExecutor
from .listening import CHANNEL, PostgresListener, payloads


class Session:
    """What the verbs share: an executor, the caller's transaction, and wakes."""

    features = Features(shared=True, transactional=True, listens=True)

    def __init__(self, executor: Executor | None = None) -> None:
        self.executor: Executor = executor or DjangoExecutor(settings.DATABASE)

    def close(self) -> None:
        self.executor.close()

    def atomic(self) -> AbstractContextManager[None]:
        return self.executor.transaction()

    def in_atomic_block(self) -> bool:
        if isinstance(self.executor, PooledExecutor):
            return False
        # What a TestCase wraps around each test is no transaction of the user's.
        return any(
            not getattr(block, "_from_testcase", False)
            for block in transaction.get_connection(self._alias).atomic_blocks
        )

    def on_commit(self, act: Callable[[], object]) -> None:
        self.executor.on_commit(act)

    def wake(self, wakes: Sequence[Wake]) -> None:
        if wakes:
            self.executor.fetch("notify", {"channel": CHANNEL, "payloads": payloads(wakes)})

    def listen(self) -> Listener | None:
        return PostgresListener(settings.LISTEN_DATABASE or self._alias)

    @property
    def _alias(self) -> str:
        return settings.DATABASE

    @contextmanager
    def _lock_timeout(self, seconds: float) -> Iterator[None]:
        """Bound lock waits inside the open transaction, and put the user's own bound back."""
        timeout = f"{int(seconds * 1000)}ms"
        ((before, _),) = self.executor.fetch("set_lock_timeout", {"timeout": timeout})
        yield
        self.executor.fetch("set_lock_timeout", {"timeout": before})
