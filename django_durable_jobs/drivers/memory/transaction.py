"""What ``atomic()`` defers to its end: checkpoints, fences and acts on commit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from django_durable_jobs.store.rows import ClaimIdentity, StepRow


@dataclass(slots=True)
class Block:
    """What one ``atomic()`` block has done so far.

    Attributes:
        fences: Claims that must still hold when the outermost block ends.
        steps: Checkpoints to be written then.
        acts: What runs once that is done.
        published: Places of the events that it published.
    """

    fences: list[ClaimIdentity] = field(default_factory=list)
    steps: dict[tuple[UUID, str], StepRow] = field(default_factory=dict)
    acts: list[Callable[[], object]] = field(default_factory=list)
    published: set[int] = field(default_factory=set)

    def absorb(self, inner: Block) -> None:
        """Take over what a block inside this one did and did not take back."""
        self.fences += inner.fences
        self.steps |= inner.steps
        self.acts += inner.acts
        self.published |= inner.published


class Blocks(threading.local):
    """The open blocks of the calling thread, outermost first."""

    def __init__(self) -> None:
        self.stack: list[Block] = []

    def release(self, claim: ClaimIdentity) -> None:
        """Ask no more for *claim* at the end: it ended in this block, by its own settlement."""
        for block in self.stack:
            block.fences = [fence for fence in block.fences if fence != claim]

    def published(self) -> set[int]:
        """Places of the events that the open blocks published."""
        return {place for block in self.stack for place in block.published}

    def pending_steps(self, job_id: UUID) -> dict[str, StepRow]:
        """Checkpoints of *job_id* that only this thread sees yet."""
        return {
            name: step
            for block in self.stack
            for (owner, name), step in block.steps.items()
            if owner == job_id
        }
