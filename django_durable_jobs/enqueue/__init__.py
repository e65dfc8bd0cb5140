"""From a call to a row.

``prepare`` makes the row without storing it; ``send`` stores rows in the caller's
transaction and wakes the workers once it has committed. Nothing is kept in memory in
between: what is not in the row is lost with the process.
"""

from .options import Options
from .prepare import EnqueueableJob, prepare
from .send import send

__all__ = ["EnqueueableJob", "Options", "prepare", "send"]
