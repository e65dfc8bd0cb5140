"""The jobs this process knows, by name."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django_durable_jobs.conf import settings
from django_durable_jobs.exceptions import JobNameTaken

if TYPE_CHECKING:
    from .definition import JobDefinition

_lock = threading.Lock()
_by_name: dict[str, JobDefinition[..., Any]] = {}


def register(definition: JobDefinition[..., Any]) -> None:
    """Make *definition* known under its name and its aliases.

    A declaration at the very same place (a reloaded module) takes its own place; one
    function declared twice under a name, as by a loop around ``@job``, does not.

    Raises:
        JobNameTaken: Another declaration has one of the names; nothing was registered.
    """
    names = (definition.name, *definition.aliases)
    with _lock:
        for name in names:
            holder = _by_name.get(name)
            if holder is not None and not _is_reload(holder, definition):
                raise JobNameTaken(name, holder.source, definition.source)
        for name in names:
            _by_name[name] = definition


def get_job(name: str) -> JobDefinition[..., Any] | None:
    """The declaration under *name* or under an alias; None when this process knows none."""
    return _by_name.get(name)


def registered_jobs() -> list[JobDefinition[..., Any]]:
    """Every declaration once, by name."""
    with _lock:
        unique = {definition.name: definition for definition in _by_name.values()}
    return [unique[name] for name in sorted(unique)]


def declared_queues() -> tuple[str, ...]:
    """The queues that exist: those of the settings, or else those that jobs name."""
    if settings.QUEUES:
        return tuple(settings.QUEUES)
    named = sorted({definition.queue for definition in registered_jobs()} - {"default"})
    return ("default", *named)


def _is_reload(holder: JobDefinition[..., Any], newcomer: JobDefinition[..., Any]) -> bool:
    # A module that is run anew compiles its functions anew; a loop shares one code object.
    return holder.source == newcomer.source and holder.fn.__code__ is not newcomer.fn.__code__


@contextmanager
def scratch_registry() -> Iterator[None]:
    """Forget what is declared inside, for tests that declare jobs."""
    with _lock:
        before = dict(_by_name)
    try:
        yield
    finally:
        with _lock:
            _by_name.clear()
            _by_name.update(before)
