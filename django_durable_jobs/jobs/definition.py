"""A declared job: what it is called, how it runs, and how it is enqueued."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, update_wrapper
from inspect import Signature, iscoroutinefunction
from types import SimpleNamespace
from typing import Any, Generic, ParamSpec, TypeVar
from uuid import UUID

from asgiref.sync import async_to_sync, sync_to_async

from django_durable_jobs.enqueue import Options, send
from django_durable_jobs.enqueue.options import check_name
from django_durable_jobs.exceptions import (
    DeclarationInvalid,
    JobNotFound,
    PayloadInvalid,
    PayloadTypeUnsupported,
    QueueNotDeclared,
    ResultUnserializable,
)
from django_durable_jobs.payloads import Codec
from django_durable_jobs.policies.retry import Retry
from django_durable_jobs.steps import AsyncJobContext, JobContext, RunContext
from django_durable_jobs.steps.effects import only_on_jobs_database
from django_durable_jobs.store import get_store
from django_durable_jobs.store.definition import OnVersionChange
from django_durable_jobs.store.rows import NewJob

from .enqueuer import Enqueuer
from .inputs import InputSchema, resolve_hint, signature_of
from .registry import declared_queues
from .result import JobResult

P = ParamSpec("P")
R = TypeVar("R")

Inputs = Any
"""A job's input as attributes: ``i.order_id``."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """What ``@job`` was told."""

    name: str
    queue: str
    priority: int
    retry: Retry
    timeout: timedelta | None
    idempotency_key: Callable[[Inputs], str] | None
    tenant: Callable[[Inputs], object] | None
    on_settled: Callable[[Any], object] | None
    atomic: bool
    aliases: tuple[str, ...]
    version: str
    on_version_change: OnVersionChange


class JobDefinition(Generic[P, R]):
    """The handle that ``@job`` answers. Calling it calls the function, with no queue at all.

    Attributes:
        name: Stored with every job; the key of the registry.
        aliases: Earlier names, under which stored jobs are still run.
        source: Where it is declared, for messages.
        version: Of its code, stored with every job; "" when none was declared.
        is_async: Its function is an ``async def``.
    """

    def __init__(self, fn: Callable[..., Any], declaration: Declaration) -> None:
        self.fn = fn
        self.is_async = iscoroutinefunction(fn)
        self.declaration = declaration
        self.name = declaration.name
        self.queue = declaration.queue
        self.priority = declaration.priority
        self.retry = declaration.retry
        self.timeout = declaration.timeout
        self.on_settled = declaration.on_settled
        self.atomic = declaration.atomic
        self.aliases = declaration.aliases
        self.version = declaration.version
        self.on_version_change = declaration.on_version_change
        self.inputs = InputSchema.from_function(fn, job=declaration.name)
        code = fn.__code__
        self.source = (
            f"{fn.__module__}.{fn.__qualname__} ({code.co_filename}:{code.co_firstlineno})"
        )
        # Only the names: attributes that other decorators left on the function (some set
        # ``retry``) would take the place of ours.
        update_wrapper(self, fn, updated=())

    def __repr__(self) -> str:
        return f"<job {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as it is written; an async one answers its coroutine."""
        try:
            return self.fn(*args, **kwargs)
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                # The arguments did not fit: it was not raised inside the function.
                error.add_note(
                    f"Calling job '{self.name}' calls its function as it is written. Run the body "
                    "here with .call(...), or store a job with .enqueue(...)."
                )
            raise

    # -- enqueue

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobResult[R]:
        """Store one job in the caller's transaction; workers are woken after the commit.

        Raises:
            InputInvalid: The arguments do not fit the signature.
            PayloadTooLarge: They are above ``DURABLE_JOBS["MAX_PAYLOAD"]``.
            QueueNotDeclared: No worker is told to serve the queue.
            TransactionNotCovered: The open transaction is on another database.
            KeyContended: Another open transaction holds the same idempotency key.
            StoreUnavailable: The database could not be reached.
        """
        return self.using().enqueue(*args, **kwargs)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobResult[R]:
        """``enqueue`` from async code."""
        return await self.using().aenqueue(*args, **kwargs)

    def enqueue_many(self, inputs: Iterable[Mapping[str, Any]]) -> list[JobResult[R]]:
        """Store many jobs, all or none; one answer per input, in order.

        Every input is checked before anything is stored; an error names the place of the
        bad one (``[500].order_id``).
        """
        return self.using().enqueue_many(inputs)

    def using(self, **options: Any) -> Enqueuer[P, R]:
        """The same job with options for the next enqueue; see ``Options``.

        Raises:
            OptionInvalid: An option is unknown or its value cannot be honoured.
        """
        return Enqueuer(self, Options().merged(self.name, options))

    def get_result(self, job_id: UUID | str) -> JobResult[R]:
        """Look a job up.

        Raises:
            JobNotFound: No job of this name has this id.
        """
        try:
            wanted = job_id if isinstance(job_id, UUID) else UUID(str(job_id))
        except ValueError:
            raise JobNotFound(job_id) from None
        row = get_store().show(wanted)
        if row is None or row.name not in (self.name, *self.aliases):
            raise JobNotFound(job_id)
        return JobResult(wanted, row.state, False, self, row)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the body here and now, on input as a worker would see it.

        Nothing is stored: steps run unrecorded, and a wait is refused. The result has been
        through its JSON form and back. An async body runs to its end before this returns;
        async code awaits ``acall`` instead.

        Raises:
            InputInvalid: The arguments do not fit the signature.
            StepRefused: The body waits.
        """
        if self.is_async:
            return async_to_sync(self._await_body)(self.inputs.bind(args, kwargs))
        values = self.load_input(self.inputs.bind(args, kwargs))
        store = get_store()
        context = JobContext.inline(self.name, store=store, atomic_job=self.atomic)
        if self.atomic:
            with store.atomic(), only_on_jobs_database(f"The atomic job '{self.name}'"):
                return self.load_result(self.dump_result(self.run(context, values)))
        return self.load_result(self.dump_result(self.run(context, values)))

    async def acall(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """``call`` from async code: an async body is awaited, a plain one runs in a thread."""
        if self.is_async:
            return await self._await_body(self.inputs.bind(args, kwargs))
        return await sync_to_async(self.call, thread_sensitive=True)(*args, **kwargs)

    async def _await_body(self, text: str) -> R:
        context = AsyncJobContext.inline(self.name, store=get_store())
        return self.load_result(self.dump_result(await self.run(context, self.load_input(text))))

    # -- as the child of a step

    def prepare_child(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """The row of a call that a step will wait for; stored by nobody yet.

        Raises:
            InputInvalid: The arguments do not fit the signature.
            PayloadTooLarge: They are above ``DURABLE_JOBS["MAX_PAYLOAD"]``.
            QueueNotDeclared: No worker is told to serve the queue.
        """
        return self.using().prepare_child(*args, **kwargs)

    def prepare_children(self, inputs: Iterable[Mapping[str, Any]]) -> list[NewJob]:
        """The same for many inputs; an error names the place of the bad one."""
        return self.using().prepare_children(inputs)

    def send_children(self, rows: Sequence[NewJob]) -> None:
        """Insert *rows* in the open transaction; workers are woken after the commit."""
        send(rows, on_conflict="existing", transactional=True)

    # -- the run

    def run(self, context: RunContext, values: Mapping[str, Any]) -> Any:
        """Call the body; what it answers, which is a coroutine if it is async."""
        if self.inputs.takes_context:
            return self.fn(context, **values)
        return self.fn(**values)

    def load_input(self, text: str) -> dict[str, Any]:
        return self.inputs.load(text)

    def dump_result(self, value: object) -> str:
        """Encode what the body returned.

        Raises:
            ResultUnserializable: It has no exact JSON form.
            PayloadTooLarge: It is above ``DURABLE_JOBS["MAX_PAYLOAD"]``.
        """
        try:
            return self._result_codec.encode(
                value, subject=f"The result of job '{self.name}'", path="result"
            )
        except PayloadInvalid as error:
            raise ResultUnserializable(self.name, error.problem) from error

    def load_result(self, text: str) -> R:
        value: R = self._result_codec.decode(text, subject=f"The result of job '{self.name}'")
        return value

    @cached_property
    def _result_codec(self) -> Codec:
        annotation = signature_of(self.fn).return_annotation
        try:
            hint = Any if annotation is Signature.empty else resolve_hint(self.fn, annotation)
        except Exception as error:
            # Annotations are expressions: evaluating one may raise anything.
            raise DeclarationInvalid(
                self.name,
                f"has the return annotation {annotation!r}, which cannot be resolved: "
                f"{type(error).__name__}: {error}.",
                "Import the type at module level, outside `if TYPE_CHECKING`.",
            ) from error
        try:
            return Codec(hint)
        except PayloadTypeUnsupported as error:
            raise DeclarationInvalid(
                self.name, f"has a return annotation without a JSON form: {error.cause}", error.fix
            ) from error

    def problems(self) -> list[DeclarationInvalid]:
        """What makes the declaration unusable, found once every module is imported."""
        found = [self.inputs.problem] if self.inputs.problem else []
        try:
            _ = self._result_codec
        except DeclarationInvalid as error:
            found.append(error)
        if self.queue not in declared_queues():
            found.append(QueueNotDeclared(self.name, self.queue, declared_queues()))
        return found

    # -- derived from the input

    def key_for(self, text: str) -> str | None:
        declared = self.declaration.idempotency_key
        if declared is None:
            return None
        return check_name(self.name, "idempotency_key", declared(self._attributes(text)))

    def tenant_for_input(self, text: str) -> str:
        declared = self.declaration.tenant
        if declared is None:
            return ""
        tenant = declared(self._attributes(text))
        return "" if tenant is None else check_name(self.name, "tenant", str(tenant))

    def tenant_for(self, **inputs: Any) -> str:
        """The tenant that a call with *inputs* belongs to, "" for none."""
        return self.tenant_for_input(self.inputs.bind((), inputs))

    def _attributes(self, text: str) -> SimpleNamespace:
        return SimpleNamespace(**self.load_input(text))
