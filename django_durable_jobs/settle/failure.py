"""An exception as text that any database can keep."""

from __future__ import annotations

import hashlib
import re
import traceback
from pathlib import Path
from types import TracebackType
from typing import Final

from django_durable_jobs.store.names import storable
from django_durable_jobs.store.rows import Failure

MAX_MESSAGE: Final = 2_000
"""Longest message, in characters."""

MAX_TRACEBACK: Final = 16_384
"""Longest traceback, as UTF-8 bytes; the middle is left out of a longer one."""

_HEAD: Final = 4_096
_CUT: Final = "\n… [left out] …\n"
_MAX_CODE: Final = 200
_FINGERPRINT: Final = 16
_PACKAGE: Final = str(Path(__file__).resolve().parents[1]) + "/"
_DIGITS: Final = re.compile(r"\d+")


def describe_failure(error: BaseException, *, job_name: str) -> Failure:
    """What the history keeps of *error*: always storable, never an error of its own.

    The traceback leaves out the frames of the worker that called the body. Failures
    that look alike share a fingerprint: same class, job and innermost function, whatever
    the numbers in their names.
    """
    error_class = _qualified_name(type(error))
    return Failure(
        code=_code(error),
        error_class=error_class,
        message=_message(error),
        traceback=_traceback(error),
        fingerprint=_fingerprint(error, error_class, job_name),
    )


def _code(error: BaseException) -> str:
    # Other libraries use the attribute too: HTTP errors for a number, some for a property.
    try:
        code = getattr(error, "code", None)
    except Exception:
        return ""
    return storable(code[:_MAX_CODE]) if isinstance(code, str) else ""


def _qualified_name(kind: type) -> str:
    module = kind.__module__
    name = kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"
    return storable(name[:MAX_MESSAGE])


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception as fault:
        text = f"(its message could not be written: {type(fault).__name__})"
    return storable(text[:MAX_MESSAGE])[:MAX_MESSAGE]


def _traceback(error: BaseException) -> str:
    try:
        described = traceback.TracebackException.from_exception(error, compact=True)
        _drop_worker_frames(described.stack)
        text = "".join(described.format())
    except Exception as fault:
        # Formatting runs code of the error's own classes.
        text = f"(its traceback could not be written: {type(fault).__name__})"
    return _bounded(storable(text))


def _drop_worker_frames(stack: traceback.StackSummary) -> None:
    ours = 0
    while ours < len(stack) and stack[ours].filename.startswith(_PACKAGE):
        ours += 1
    if ours < len(stack):
        del stack[:ours]


def _bounded(text: str) -> str:
    data = text.encode()
    if len(data) <= MAX_TRACEBACK:
        return text
    tail = MAX_TRACEBACK - _HEAD - len(_CUT.encode())
    # The head says where it began, the tail what was raised.
    return data[:_HEAD].decode(errors="ignore") + _CUT + data[-tail:].decode(errors="ignore")


def _fingerprint(error: BaseException, error_class: str, job_name: str) -> str:
    place = _innermost(error.__traceback__)
    text = "\n".join((error_class, job_name, _DIGITS.sub("#", place)))
    return hashlib.sha256(storable(text).encode()).hexdigest()[:_FINGERPRINT]


def _innermost(trace: TracebackType | None) -> str:
    """Module and function of the innermost frame that is not this package's."""
    place = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            # A module is called the same on every host, a file is not.
            module = trace.tb_frame.f_globals.get("__name__", code.co_filename)
            place = f"{module}:{code.co_qualname}"
        trace = trace.tb_next
    return place
