"""The JSON form of what a step's function returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final, Generic, TypeVar, get_type_hints

from django_durable_jobs.exceptions import (
    PayloadInvalid,
    PayloadTypeUnsupported,
    StepOutputUnserializable,
)
from django_durable_jobs.payloads import Codec

T = TypeVar("T")

_CODECS_KEPT: Final = 512


class Output(Generic[T]):
    """How the output of one step is written and read, after the function's annotation.

    A function without a return annotation returns JSON's own types. One whose annotation
    names what cannot be resolved here (an import for type checkers only) is held to the
    same, and a refusal then says so.
    """

    def __init__(self, step: str, fn: Callable[..., T]) -> None:
        """Find the form before the function runs, so that no effect is lost to it.

        Raises:
            StepOutputUnserializable: Values of the annotated type have no JSON form.
        """
        self._step = step
        annotation, self._unresolved = _returned(fn)
        try:
            self._codec = _codec(annotation)
        except PayloadTypeUnsupported as error:
            raise StepOutputUnserializable(step, error.cause.removesuffix(".")) from error

    def encode(self, value: object) -> str:
        """Write *value*.

        Raises:
            StepOutputUnserializable: It has no exact JSON form.
            PayloadTooLarge: It is above ``DURABLE_JOBS["MAX_PAYLOAD"]``.
        """
        try:
            return self._codec.encode(
                value, subject=f"The output of step '{self._step}'", path="output"
            )
        except PayloadInvalid as error:
            problem = error.problem
            if self._unresolved:
                problem += f" (its return annotation is not known here: {self._unresolved})"
            raise StepOutputUnserializable(self._step, problem) from error

    def decode(self, text: str) -> T:
        """Read a stored output.

        Raises:
            PayloadInvalid: It no longer fits the annotation.
        """
        subject = f"The stored output of step '{self._step}'"
        try:
            value: T = self._codec.decode(text, subject=subject, path="output")
        except PayloadInvalid as error:
            raise PayloadInvalid(
                subject,
                error.problems,
                f"Deploy code that reads it, or requeue the job from step '{self._step}'.",
            ) from None
        return value


def _codec(annotation: Any) -> Codec:
    try:
        return _kept_codec(annotation)
    except TypeError as error:
        if isinstance(error, PayloadTypeUnsupported):
            raise
        # An annotation that cannot be hashed, such as Annotated[int, []].
        return Codec(annotation)


@lru_cache(maxsize=_CODECS_KEPT)
def _kept_codec(annotation: Any) -> Codec:
    # Keyed by the annotation and not by the function: one defined inside a body is a new
    # function at every run.
    return Codec(annotation)


def _returned(fn: Callable[..., object]) -> tuple[Any, str]:
    """The return annotation of *fn*, Any without one, and why it could not be resolved."""
    target: Any = fn
    while isinstance(target, partial):
        target = target.func
    if isinstance(target, type):
        return target, ""
    if not inspect.isroutine(target):
        target = getattr(type(target), "__call__", target)  # noqa: B004 -- its function is wanted
    target = inspect.unwrap(getattr(target, "__func__", target))
    try:
        written = inspect.get_annotations(target).get("return", Any)
    except (NameError, TypeError) as error:
        return Any, str(error)
    if written is None or not isinstance(written, str):
        return written, ""
    try:
        hints = get_type_hints(
            _Returning(written), globalns=getattr(target, "__globals__", {}), include_extras=True
        )
    except Exception as error:
        # Annotations are expressions: evaluating one may raise anything.
        return Any, f"{type(error).__name__}: {error}"
    return hints["return"], ""


class _Returning:
    """Something with only a return annotation: the others need not be resolvable."""

    def __init__(self, annotation: str) -> None:
        self.__annotations__ = {"return": annotation}
