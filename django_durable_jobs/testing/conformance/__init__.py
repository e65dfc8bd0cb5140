"""The promises of the store's port as tests: every driver passes all of them.

For driver authors. In a test module of your own::

    import pytest

    from django_durable_jobs.testing.conformance import *
    from shop.drivers import RedisStore


    @pytest.fixture
    def store():
        store = RedisStore()
        yield store
        store.close()

and run it with pytest: the star import brings the test classes and the fixture
``clock`` into the module, where pytest collects them like any other.

What your ``store`` fixture owes each test: an empty store, and, where ``features.shared``
or ``for_worker`` need it, real connections that see each other's commits (for Django's
databases ``pytest.mark.django_db(transaction=True)``).

What the suite does: it moves time with ``django_durable_jobs.clock``, never sleeps, and
asks ``store.features`` before it tests what a driver may lack. Where the port leaves a
choice, so do the tests.

==================  =========================================================
test_enqueue        insert, idempotency keys
test_transactions   what joins the caller's transaction, or waits for its end
test_claim          order, lanes, arming; no job given twice
test_settle         the end of an attempt; parking; names nobody knows
test_fences         every fenced write against every way of losing a claim
test_rescue         lapsed leases taken again, or buried
test_steps          checkpoints
test_events         what a wait may take, whom a publish wakes, what is purged
test_event_filters  addressed events, waits since the enqueue, any of several
test_event_cursors  what a wait has refused
test_event_looks    every look for an event agrees with every other
test_waits_aside    open waits of finished jobs
test_last_child     when the end of a child makes its parent due
test_held_children  children that wait for a sibling's end
test_children       children inserted again, and what became of them
test_listening      wakes
test_matrix         the table of allowed moves, and that nothing else moves
test_operations     requeue, cancel, promote, remove
test_requeue        requeue from a step
test_versions       versions of a job's code
test_list           pages, filters, depth
test_pauses         paused queues
test_bounds         probe, renewal, the clock
test_payloads       the JSON form of what is stored
==================  =========================================================
"""

import pkgutil

import pytest

# Before the modules below are imported, so that their asserts show the values compared.
pytest.register_assert_rewrite(
    *(f"{__name__}.{room.name}" for room in pkgutil.iter_modules(__path__))
)

from .fixtures import clock  # noqa: E402 - see above
from .test_bounds import TestClock, TestProbe, TestRenewal  # noqa: E402 - see above
from .test_children import TestChildren  # noqa: E402 - see above
from .test_claim import TestArm, TestClaim, TestClaimBounds  # noqa: E402 - see above
from .test_enqueue import TestEnqueue, TestIdempotencyKeys  # noqa: E402 - see above
from .test_event_cursors import TestCursors  # noqa: E402 - see above
from .test_event_filters import (  # noqa: E402 - see above
    TestAddressedEvents,
    TestAlternatives,
    TestEventPayloads,
    TestWaitsSinceTheEnqueue,
)
from .test_event_looks import TestAgreement  # noqa: E402 - see above
from .test_events import (  # noqa: E402 - see above
    TestMatching,
    TestMissedWakes,
    TestPurging,
    TestWaking,
)
from .test_fences import TestFences  # noqa: E402 - see above
from .test_held_children import (  # noqa: E402 - see above
    TestHeldChildren,
    TestMissedParents,
)
from .test_last_child import TestLastChild  # noqa: E402 - see above
from .test_list import TestList, TestStats  # noqa: E402 - see above
from .test_listening import TestListening  # noqa: E402 - see above
from .test_matrix import TestMatrix  # noqa: E402 - see above
from .test_operations import (  # noqa: E402 - see above
    TestCancel,
    TestPromote,
    TestRemove,
    TestRequeue,
)
from .test_pauses import TestPauses  # noqa: E402 - see above
from .test_payloads import TestAsciiEscapes, TestPayloads  # noqa: E402 - see above
from .test_requeue import TestRequeueFromAStep  # noqa: E402 - see above
from .test_rescue import TestBurial, TestRescue  # noqa: E402 - see above
from .test_settle import TestParking, TestSettle, TestUnknownNames  # noqa: E402 - see above
from .test_steps import TestSteps  # noqa: E402 - see above
from .test_transactions import TestTransactions  # noqa: E402 - see above
from .test_versions import TestVersions, TestVersionWaits  # noqa: E402 - see above
from .test_waits_aside import TestWaitsAside  # noqa: E402 - see above

__all__ = [
    "TestAddressedEvents",
    "TestAgreement",
    "TestAlternatives",
    "TestArm",
    "TestAsciiEscapes",
    "TestBurial",
    "TestCancel",
    "TestChildren",
    "TestClaim",
    "TestClaimBounds",
    "TestClock",
    "TestCursors",
    "TestEnqueue",
    "TestEventPayloads",
    "TestFences",
    "TestHeldChildren",
    "TestIdempotencyKeys",
    "TestLastChild",
    "TestList",
    "TestListening",
    "TestMatching",
    "TestMatrix",
    "TestMissedParents",
    "TestMissedWakes",
    "TestParking",
    "TestPauses",
    "TestPayloads",
    "TestProbe",
    "TestPromote",
    "TestPurging",
    "TestRemove",
    "TestRenewal",
    "TestRequeue",
    "TestRequeueFromAStep",
    "TestRescue",
    "TestSettle",
    "TestStats",
    "TestSteps",
    "TestTransactions",
    "TestUnknownNames",
    "TestVersionWaits",
    "TestVersions",
    "TestWaitsAside",
    "TestWaitsSinceTheEnqueue",
    "TestWaking",
    "clock",
]
