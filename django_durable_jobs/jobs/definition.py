"""A declared job: what it is called, how it runs, and how it is enqueued."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property, update_wrapper
from inspect import Signature
from types import SimpleNamespace
from typing import Any, Generic, ParamSpec, TypeVar
from uuid import UUID

from asgiref.sync import sync_to_async

from django_durable_jobs.enqueue import Options, prepare, send
from django_durable_jobs.enqueue.options import check_name
from django_durable_jobs.exceptions import (
    DeclarationInvalid,
    InputInvalid,
    JobNotFound,
    OptionInvalid,
    PayloadInvalid,
    PayloadTooLarge,
    PayloadTypeUnsupported,
    QueueNotDeclared,
    ResultUnserializable,
)
from django_durable_jobs.payloads import Codec
from django_durable_jobs.policies.retry import Retry
from django_durable_jobs.steps import JobContext
from django_durable_jobs.store import get_store
from django_durable_jobs.store.definition import OnVersionChange
from django_durable_jobs.store.rows import Inserted, NewJob

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
    """

    def __init__(self, fn: Callable[..., R], declaration: Declaration) -> None:
        self.fn = fn
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

    def __call__(self, *args: Any, **kwargs: Any) -> R:
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
        through its JSON form and back.

        Raises:
            InputInvalid: The arguments do not fit the signature.
            StepRefused: The body waits.
        """
        values = self.load_input(self.inputs.bind(args, kwargs))
        store = get_store()
        context = JobContext.inline(self.name, store=store, atomic_job=self.atomic)
        if self.atomic:
            with store.atomic():
                return self.load_result(self.dump_result(self.run(context, values)))
        return self.load_result(self.dump_result(self.run(context, values)))

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

    def run(self, context: JobContext, values: Mapping[str, Any]) -> R:
        """Call the body."""
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


class Enqueuer(Generic[P, R]):
    """A job with options; answers of ``using()``."""

    def __init__(self, definition: JobDefinition[P, R], options: Options) -> None:
        self._definition = definition
        self._options = options

    def using(self, **options: Any) -> Enqueuer[P, R]:
        """These options and more; a later one wins."""
        merged = self._options.merged(self._definition.name, options)
        return Enqueuer(self._definition, merged)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobResult[R]:
        """See ``JobDefinition.enqueue``."""
        (result,) = self._send([self._definition.inputs.bind(args, kwargs)])
        return result

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobResult[R]:
        """``enqueue`` from async code."""
        # Thread-sensitive, so that it runs on the connection of the caller's transaction.
        return await sync_to_async(self.enqueue, thread_sensitive=True)(*args, **kwargs)

    def enqueue_many(self, inputs: Iterable[Mapping[str, Any]]) -> list[JobResult[R]]:
        """See ``JobDefinition.enqueue_many``."""
        return self._send(self._bind_many(inputs))

    def prepare_child(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """See ``JobDefinition.prepare_child``.

        Raises:
            OptionInvalid: An option was given that a child cannot have.
        """
        (row,) = self._prepare_children([self._definition.inputs.bind(args, kwargs)])
        return row

    def prepare_children(self, inputs: Iterable[Mapping[str, Any]]) -> list[NewJob]:
        """See ``JobDefinition.prepare_children``."""
        return self._prepare_children(self._bind_many(inputs))

    def send_children(self, rows: Sequence[NewJob]) -> None:
        """See ``JobDefinition.send_children``."""
        self._definition.send_children(rows)

    @property
    def name(self) -> str:
        return self._definition.name

    def load_result(self, text: str) -> R:
        return self._definition.load_result(text)

    def _prepare_children(self, texts: list[str]) -> list[NewJob]:
        definition, options = self._definition, self._options
        self._require_queue()
        if options.idempotency_key is not None:
            raise OptionInvalid(
                definition.name,
                "idempotency_key",
                "is given to a child, whose id is made of its parent and the step.",
                "Leave it out, or enqueue the job with ctx.step.enqueue().",
            )
        if not options.transactional:
            raise OptionInvalid(
                definition.name,
                "transactional",
                "is False for a child, which is stored together with its step.",
                "Leave it out.",
            )
        # Two children with one key would be one job, with one id.
        return [replace(prepare(definition, text, options), idempotency_key=None) for text in texts]

    def _bind_many(self, inputs: Iterable[Mapping[str, Any]]) -> list[str]:
        texts: list[str] = []
        for place, values in enumerate(inputs):
            if not isinstance(values, Mapping):
                raise InputInvalid(
                    self._definition.name,
                    [(f"[{place}]", f"is a {type(values).__name__}, not a dict of inputs")],
                )
            try:
                texts.append(self._definition.inputs.bind((), values))
            except InputInvalid as error:
                raise InputInvalid(
                    self._definition.name,
                    [(_inside(place, path), message) for path, message in error.problems],
                ) from None
            except PayloadTooLarge as error:
                subject = f"Input [{place}] of job '{self._definition.name}'"
                raise PayloadTooLarge(subject, error.size, error.limit) from None
        return texts

    def _require_queue(self) -> None:
        queue = self._options.queue or self._definition.queue
        if queue not in (queues := declared_queues()):
            raise QueueNotDeclared(self._definition.name, queue, queues)

    def _send(self, texts: list[str]) -> list[JobResult[R]]:
        definition, options = self._definition, self._options
        self._require_queue()
        if options.idempotency_key is not None and len(texts) > 1:
            raise OptionInvalid(
                definition.name,
                "idempotency_key",
                "is one key for many jobs.",
                "Declare how the key is derived: @job(idempotency_key=lambda i: ...).",
            )
        answers = send(
            [prepare(definition, text, options) for text in texts],
            on_conflict=options.on_conflict,
            transactional=options.transactional,
        )
        return [self._result(answer) for answer in answers]

    def _result(self, answer: Inserted) -> JobResult[R]:
        return JobResult(answer.id, answer.state, not answer.created, self._definition)


def _inside(place: int, path: str) -> str:
    return f"[{place}]{path}" if path.startswith("[") else f"[{place}].{path}"
