"""Time-ordered ids, made where the job is made."""

from __future__ import annotations

import os
import threading
import time
from hashlib import sha256
from typing import Final
from uuid import UUID

_RANDOM_BITS: Final = 62
_lock = threading.Lock()
_last = 0


def new_id() -> UUID:
    """A UUIDv7: newer ids sort after older ones of this process, also within a millisecond.

    The 12 bits behind the milliseconds carry the fraction of the millisecond, and an
    id that would not be greater than the last takes the next fraction, so a bulk of
    any size keeps its order.
    """
    global _last
    # 1/4096 ms, the resolution that the 12 bits can show.
    ticks = time.time_ns() * 4096 // 1_000_000
    with _lock:
        if ticks <= _last:
            ticks = _last + 1
        _last = ticks
    milliseconds, fraction = divmod(ticks, 4096)
    tail = int.from_bytes(os.urandom(8), "big") & ((1 << _RANDOM_BITS) - 1)
    return UUID(int=(milliseconds << 80) | (0x7 << 76) | (fraction << 64) | (0b10 << 62) | tail)


MAX_CHILDREN: Final = 1 << 20
"""Children that one step can have."""


def family_id(parent_id: UUID, step: str, generation: int) -> UUID:
    """The id of the first child of a step: the same however often it is asked for.

    A UUIDv7 with the parent's time and room for ``MAX_CHILDREN`` siblings behind it. A
    parent that was requeued from a step is of another *generation*, whose children are
    others.
    """
    digest = sha256(f"{parent_id}\n{generation}\n{step}".encode()).digest()
    noise = int.from_bytes(digest[:7], "big") >> 2
    return UUID(
        int=(parent_id.int >> 80 << 80)
        | (0x7 << 76)
        | (noise >> 42 << 64)
        | (0b10 << 62)
        | ((noise & ((1 << 42) - 1)) << 20)
    )


def sibling_id(family_id: UUID, index: int) -> UUID:
    """The id of the child number *index* of a family, from 0; greater than all before it.

    Raises:
        ValueError: *index* is not from 0 to below ``MAX_CHILDREN``.
    """
    if not 0 <= index < MAX_CHILDREN:
        raise ValueError(f"A step has at most {MAX_CHILDREN:,} children; this is number {index:,}.")
    return UUID(int=family_id.int + index)
