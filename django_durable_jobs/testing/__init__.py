"""What projects and driver authors use in their tests; nothing here is imported in production.

``run_jobs()`` runs due jobs inline, in the test's own transaction. ``factories`` makes
rows (it needs factory-boy). ``conformance`` is the suite that every driver passes.
``explorer`` crashes a job at each SQL statement that it sends.
"""

from .running import Ran, run_jobs

__all__ = ["Ran", "run_jobs"]
