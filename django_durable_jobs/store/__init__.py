"""What must be remembered, behind one port: the entry for driver authors.

A driver is a class that satisfies ``JobStore``. Name its dotted path in
``DURABLE_JOBS["DRIVER"]``, and run ``django_durable_jobs.testing.conformance``
against it. Values cross the port frozen (``rows``); the errors a driver raises are
``StoreUnavailable``, ``ClaimQueuesEmpty``, ``JobDuplicate``, ``KeyContended``,
``LeaseLost``, ``StateUnknown`` and the refusals of the operations.
"""

from .port import Features, JobStore, Listener
from .registry import get_detached_store, get_store, install_store, reset_store

__all__ = [
    "Features",
    "JobStore",
    "Listener",
    "get_detached_store",
    "get_store",
    "install_store",
    "reset_store",
]
