"""``manage.py run_durable_jobs``: ``runjobs`` where another app has a command of that name."""

from .runjobs import Command

__all__ = ["Command"]
