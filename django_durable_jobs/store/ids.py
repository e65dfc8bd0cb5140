"""Time-ordered ids, made where the job is made."""

from __future__ import annotations

import os
import threading
import time
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
