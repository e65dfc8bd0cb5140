"""A job with options for the next enqueue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from asgiref.sync import sync_to_async

from django_durable_jobs.enqueue import Options, prepare, send
from django_durable_jobs.exceptions import (
    InputInvalid,
    OptionInvalid,
    PayloadTooLarge,
    QueueNotDeclared,
)
from django_durable_jobs.store.rows import Inserted, NewJob

from .registry import declared_queues
from .result import JobResult

if TYPE_CHECKING:
    from .definition import JobDefinition

P = ParamSpec("P")
R = TypeVar("R")


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
