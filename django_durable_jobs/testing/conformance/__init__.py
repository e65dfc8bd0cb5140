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
"""

import pkgutil

import pytest

# Before the modules below are imported, so that their asserts show the values compared.
pytest.register_assert_rewrite(
    *(f"{__name__}.{room.name}" for room in pkgutil.iter_modules(__path__))
)

from .fixtures import clock  # noqa: E402 - see above
from .test_claim import TestArm, TestClaim, TestClaimBounds  # noqa: E402 - see above
from .test_enqueue import TestEnqueue, TestIdempotencyKeys, TestTransactions  # noqa: E402 - see above

__all__ = [
    "TestArm",
    "TestClaim",
    "TestClaimBounds",
    "TestEnqueue",
    "TestIdempotencyKeys",
    "TestTransactions",
    "clock",
]
