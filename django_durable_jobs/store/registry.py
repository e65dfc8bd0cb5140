"""From the setting to the store in force."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from django_durable_jobs.conf import settings
from django_durable_jobs.exceptions import SettingInvalid

from .port import JobStore

DRIVERS: Final = {
    "postgres": "django_durable_jobs.drivers.postgres.PostgresStore",
    "memory": "django_durable_jobs.drivers.memory.MemoryStore",
}
"""Short names for ``DURABLE_JOBS["DRIVER"]``; anything else is a dotted path."""

_lock = threading.RLock()
_installed: JobStore | None = None
_detached: JobStore | None = None


def get_store() -> JobStore:
    """The store of this process, made from ``DURABLE_JOBS["DRIVER"]`` at first use.

    Raises:
        SettingInvalid: The setting names no driver.
    """
    global _installed
    store = _installed
    if store is None:
        with _lock:
            if _installed is None:
                _installed = find_driver()()
            store = _installed
    return store


def get_detached_store() -> JobStore:
    """The store on connections of its own, whatever transaction the caller is in."""
    global _detached
    store = get_store()
    with _lock:
        if _detached is None:
            _detached = store.for_worker()
        return _detached


def install_store(store: JobStore) -> None:
    """Use *store* in this process instead of the one the setting names."""
    global _installed
    reset_store()
    _installed = store


def reset_store() -> None:
    """Forget the store in force; the next use makes it anew from the setting."""
    global _installed, _detached
    with _lock:
        for store in (_installed, _detached):
            if store is not None:
                store.close()
        _installed = _detached = None


def find_driver() -> Callable[[], JobStore]:
    """The class that ``DURABLE_JOBS["DRIVER"]`` names.

    Raises:
        SettingInvalid: The setting names no driver.
    """
    name = settings.DRIVER
    path = DRIVERS.get(name, name)
    try:
        driver: Callable[[], JobStore] = import_string(path)
    except ImportError as error:
        raise SettingInvalid(
            "DRIVER",
            f"names '{name}', which cannot be imported ({error}).",
            f"Use one of {', '.join(DRIVERS)}, or the dotted path of a store class.",
        ) from error
    return driver


def _setting_changed(*, setting: str, **_: object) -> None:
    if setting == "DURABLE_JOBS":
        reset_store()


setting_changed.connect(_setting_changed)
