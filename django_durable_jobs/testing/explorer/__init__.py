"""The crash explorer: breaks a run at every statement it sends, and checks its promises.

::

    from django_durable_jobs.testing.explorer import explore_crashes

    @pytest.mark.django_db(transaction=True)
    def test_an_order_survives_every_crash():
        explore_crashes(place_order, {"order_id": 7}, events={"order.approved": {}})

A run is a row of statements. Between any two the process may die, the connection may drop, an
answer may be lost, an event may come, another worker may come by. The explorer makes each
of these happen at each place, one in each run, and lets the machine go on until nothing is
live. What must hold then is compared with a run that was left alone.

- ``wire`` counts the statements of psycopg's connections and breaks one.
- ``meetings`` are what else can happen there.
- ``killing`` and ``victim`` do it with a real process and a real SIGKILL.
- ``machine`` claims, runs, rescues and moves the clock; it never sleeps.
- ``history`` is what the bodies did, written where the product cannot reach.
- ``verdict`` judges.
"""

from .explore import Explorer, Flow, explore_crashes
from .history import Note, effect, note
from .report import Explored, Violation, report
from .verdict import Run

__all__ = [
    "Explored",
    "Explorer",
    "Flow",
    "Note",
    "Run",
    "Violation",
    "effect",
    "explore_crashes",
    "note",
    "report",
]
