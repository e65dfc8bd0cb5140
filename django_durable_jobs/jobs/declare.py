"""``@job``: a function becomes a job."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable
from typing import (
    Any,
    Concatenate,
    Final,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    get_args,
    overload,
)

from django.apps import apps

from django_durable_jobs.durations import Duration, parse_duration
from django_durable_jobs.enqueue.options import MAX_ATTEMPTS, check_priority
from django_durable_jobs.exceptions import DeclarationInvalid, DurationInvalid, OptionInvalid
from django_durable_jobs.policies.retry import Retry
from django_durable_jobs.steps import AsyncJobContext, JobContext
from django_durable_jobs.store.definition import OnVersionChange
from django_durable_jobs.store.names import name_fault

from .definition import Declaration, Inputs, JobDefinition
from .registry import register

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_QUEUE: Final = "default"


class Declare(Protocol):
    """The decorator that ``@job(...)`` answers."""

    @overload
    def __call__(
        self, fn: Callable[Concatenate[AsyncJobContext, P], Coroutine[Any, Any, R]], /
    ) -> JobDefinition[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> JobDefinition[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[JobContext, P], R], /) -> JobDefinition[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> JobDefinition[P, R]: ...


@overload
def job(
    fn: Callable[Concatenate[AsyncJobContext, P], Coroutine[Any, Any, R]], /
) -> JobDefinition[P, R]: ...
@overload
def job(fn: Callable[P, Coroutine[Any, Any, R]], /) -> JobDefinition[P, R]: ...
@overload
def job(fn: Callable[Concatenate[JobContext, P], R], /) -> JobDefinition[P, R]: ...
@overload
def job(fn: Callable[P, R], /) -> JobDefinition[P, R]: ...
@overload
def job(
    *,
    name: str | None = None,
    queue: str = DEFAULT_QUEUE,
    priority: int = 0,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    idempotency_key: Callable[[Inputs], str] | None = None,
    tenant: Callable[[Inputs], object] | None = None,
    on_settled: Callable[[Any], object] | None = None,
    atomic: bool = False,
    aliases: Iterable[str] = (),
    version: str = "",
    on_version_change: OnVersionChange | None = None,
) -> Declare: ...
def job(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    queue: str = DEFAULT_QUEUE,
    priority: int = 0,
    retry: Retry | None = None,
    timeout: Duration | None = None,
    idempotency_key: Callable[[Inputs], str] | None = None,
    tenant: Callable[[Inputs], object] | None = None,
    on_settled: Callable[[Any], object] | None = None,
    atomic: bool = False,
    aliases: Iterable[str] = (),
    version: str = "",
    on_version_change: OnVersionChange | None = None,
) -> Any:
    """Declare a function, plain or ``async def``, as a job.

    The signature is the schema of its input; a first parameter called ``ctx`` is given the
    ``JobContext``, or the ``AsyncJobContext`` of an async function.

    Args:
        name: Stored with every job; ``<app_label>.<function>`` if omitted. Give one before
            you rename or move the function.
        queue: Where its jobs wait.
        priority: Higher is claimed first, -32767 to 32767.
        retry: How often and when it is tried again.
        timeout: Longest attempt; no limit if omitted.
        idempotency_key: From the input (``lambda i: f"order:{i.order_id}"``) to a key that at
            most one live job of this name and tenant holds.
        tenant: From the input to the tenant whose work it is.
        on_settled: Called with a ``Settled`` value after the job finished; again when it
            raises, three times in all.
        atomic: Body and settle are one transaction of the jobs database: its effects there
            happen exactly once. Steps are refused in it. For plain functions only.
        aliases: Earlier names of this job; stored jobs under them are run by it.
        version: Of its code, of your own choosing. Change it when a run that was begun by the
            earlier code should not simply go on in this one.
        on_version_change: What becomes of such a run once it has stored steps. ``continue``
            (if omitted): it goes on. ``fail``: it is given up with ``VersionChanged`` and goes
            on when it is requeued under its own version. ``wait``: it is given back, its
            attempt unspent, until a worker of its version takes it. A run without stored steps
            is run by any version.

    Raises:
        DeclarationInvalid: The declaration could not be honoured.
        JobNameTaken: Another job has the name or an alias.
    """

    def declare(function: Callable[..., Any]) -> JobDefinition[..., Any]:
        _require_function(function)
        wanted = _default_name(function) if name is None else name
        label = _name(function.__qualname__, "a name", wanted)
        definition: JobDefinition[..., Any] = JobDefinition(
            function,
            Declaration(
                name=label,
                queue=_name(label, "a queue", queue),
                priority=_priority(label, priority),
                retry=_retry(label, retry),
                timeout=_timeout(label, timeout),
                idempotency_key=_callable(label, "an idempotency_key", idempotency_key),
                tenant=_callable(label, "a tenant", tenant),
                on_settled=_callable(label, "an on_settled", on_settled),
                atomic=_atomic(label, atomic, function),
                aliases=_aliases(label, aliases),
                version=_version(label, version),
                on_version_change=_on_version_change(label, on_version_change, version),
            ),
        )
        register(definition)
        return definition

    return declare if fn is None else declare(fn)


def _require_function(function: Any) -> None:
    label = getattr(function, "__qualname__", type(function).__name__)
    if not inspect.isfunction(function):
        raise DeclarationInvalid(
            label, "is not a function.", "Put @job on a def or an async def, outermost."
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise DeclarationInvalid(
            label, "is a generator: calling it would run nothing.", "Return instead of yield."
        )


def _default_name(function: Callable[..., Any]) -> str:
    if not apps.apps_ready:
        raise DeclarationInvalid(
            function.__qualname__,
            "is declared before the apps are loaded, so its app is not known.",
            "Import the module later, or give the job a name.",
        )
    config = apps.get_containing_app_config(function.__module__)
    owner = function.__module__ if config is None else config.label
    return f"{owner}.{function.__name__}"


def _name(job: str, what: str, value: object) -> str:
    fault = name_fault(value)
    if fault is not None:
        raise DeclarationInvalid(job, f"has {what} that {fault}.")
    return str(value)


def _aliases(job: str, value: Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        # Its letters would be aliases.
        raise DeclarationInvalid(
            job, "has aliases that are one text.", "Give a list: aliases=[...]."
        )
    return tuple(_name(job, "an alias", alias) for alias in value)


def _version(job: str, value: object) -> str:
    return "" if value == "" else _name(job, "a version", value)


def _on_version_change(job: str, value: object, version: str) -> OnVersionChange:
    if value is None:
        return "continue"
    choices = get_args(OnVersionChange)
    if value not in choices:
        raise DeclarationInvalid(
            job,
            "has an on_version_change that is not one of its choices.",
            f"Choose one of {', '.join(map(repr, choices))}.",
        )
    if not version:
        raise DeclarationInvalid(
            job,
            "has an on_version_change and no version that could change.",
            'Declare one: version="1".',
        )
    return cast("OnVersionChange", value)


def _atomic(job: str, value: object, function: Callable[..., Any]) -> bool:
    if not isinstance(value, bool):
        raise DeclarationInvalid(job, "has an atomic that is neither True nor False.")
    if value and inspect.iscoroutinefunction(function):
        raise DeclarationInvalid(
            job,
            "is atomic and async, but a transaction of Django's holds plain code only.",
            "Declare a plain function, or do the database work in ctx.step.atomic().",
        )
    return value


def _priority(job: str, value: object) -> int:
    try:
        return check_priority(job, "priority", value)
    except OptionInvalid as error:
        raise DeclarationInvalid(
            job, error.cause.split(": option ", 1)[1].replace("priority", "has a priority that", 1)
        ) from error


def _retry(job: str, value: object) -> Retry:
    if value is None:
        return Retry()
    if not isinstance(value, Retry):
        raise DeclarationInvalid(
            job,
            f"has a retry of type {type(value).__name__}.",
            "Write retry=Retry(attempts=5).",
        )
    if value.attempts > MAX_ATTEMPTS:
        raise DeclarationInvalid(job, f"has a retry of more than {MAX_ATTEMPTS:,} attempts.")
    return value


def _timeout(job: str, value: Any) -> Any:
    if value is None:
        return None
    try:
        timeout = parse_duration(value, subject="timeout")
    except DurationInvalid as error:
        reason = error.cause.removeprefix("timeout").strip()
        raise DeclarationInvalid(job, f"has a timeout that {reason}", error.fix) from error
    if not timeout:
        raise DeclarationInvalid(job, "has a timeout of zero.", "Leave it out for no limit.")
    return timeout


def _callable(job: str, what: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise DeclarationInvalid(
            job,
            f"has {what} of type {type(value).__name__}, not a function.",
            "Give a function of one argument.",
        )
    return value
