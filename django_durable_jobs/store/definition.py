"""What running and settling need to know of a declared job.

They look nothing up: the worker, which knows the declarations, hands one over.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal, Protocol

from django_durable_jobs.policies.retry import Retry

OnVersionChange = Literal["continue", "fail", "wait"]
"""What becomes of a run with stored steps that meets code of another declared version."""


class RunnableJob(Protocol):
    """A declaration as the run sees it.

    Attributes:
        name: The stored name.
        timeout: Longest attempt; None for no limit.
        on_settled: Called after the job finished, with a ``Settled`` value.
    """

    @property
    def name(self) -> str: ...

    @property
    def queue(self) -> str: ...

    @property
    def retry(self) -> Retry: ...

    @property
    def timeout(self) -> timedelta | None: ...

    @property
    def on_settled(self) -> Callable[[Any], object] | None: ...

    def load_input(self, text: str) -> Any:
        """Decode stored input.

        Raises:
            InputInvalid: It no longer fits the signature.
        """
        ...

    def load_result(self, text: str) -> Any:
        """Decode a stored result.

        Raises:
            PayloadInvalid: It no longer fits the return annotation.
        """
        ...
