"""The input of a job, as its function's signature declares it."""

from __future__ import annotations

import inspect
import json
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final, NotRequired, cast

from typing_extensions import TypedDict

from django_durable_jobs.exceptions import (
    DeclarationInvalid,
    InputInvalid,
    PayloadInvalid,
    PayloadTypeUnsupported,
)
from django_durable_jobs.payloads.codec import NO_BOUND, Codec, type_name
from django_durable_jobs.payloads.faults import is_django_model
from django_durable_jobs.payloads.problems import UNEXPECTED

CONTEXT: Final = "ctx"
"""Name of the first parameter that receives the ``JobContext`` and is no input."""


class InputSchema:
    """What a job accepts: checked at the call, stored as JSON, checked again at the run.

    Made when the job is declared, which only reads names; the types are looked at by
    ``resolve()``, once every module is imported. Use before that resolves it at once.

    Attributes:
        job: Name of the job, for errors.
        takes_context: The function's first parameter is called ``ctx``.
        names: The other parameters, in order.
    """

    def __init__(
        self, job: str, fn: Callable[..., Any], parameters: Sequence[inspect.Parameter]
    ) -> None:
        """Take the inputs from *parameters* of *fn*; use ``from_function``."""
        self.job = job
        self.takes_context = bool(parameters) and parameters[0].name == CONTEXT
        inputs = parameters[1:] if self.takes_context else parameters
        self.names = tuple(parameter.name for parameter in inputs)
        self._fn = fn
        self._inputs = tuple(inputs)
        self._positional = tuple(p.name for p in inputs if p.kind is not p.KEYWORD_ONLY)
        self._defaults = {p.name: p.default for p in inputs if p.default is not p.empty}
        self._stored_defaults = "{}"
        self._codec: Codec | None = None
        self._problem: DeclarationInvalid | None = None

    @classmethod
    def from_function(cls, fn: Callable[..., Any], *, job: str = "") -> InputSchema:
        """Read the parameters of *fn*, which may be a plain or an ``async`` function.

        Args:
            job: Name of the job; the function's own if omitted.

        Raises:
            DeclarationInvalid: A parameter is ``*args``, ``**kwargs`` or positional-only.
        """
        job = job or getattr(fn, "__name__", type(fn).__name__)
        parameters = list(signature_of(fn).parameters.values())
        for parameter in parameters:
            refusal = _KIND_REFUSED.get(parameter.kind)
            if refusal is not None:
                reason, fix = refusal
                raise DeclarationInvalid(job, f"has parameter '{parameter.name}', {reason}.", fix)
        return cls(job, fn, parameters)

    @property
    def problem(self) -> DeclarationInvalid | None:
        """What makes the schema unusable, for a system check; None when it is sound."""
        self.resolve()
        return self._problem

    def resolve(self) -> None:
        """Read the type hints and build the codec. Never raises; see ``problem``.

        Doing it twice, or from two threads, is harmless.
        """
        if self._codec is not None or self._problem is not None:
            return
        try:
            codec, self._stored_defaults = self._build()
        except DeclarationInvalid as problem:
            self._problem = problem
        else:
            # Last, since another thread takes a codec as the sign that all is in place.
            self._codec = codec

    def bind(self, args: Sequence[object], kwargs: Mapping[str, object]) -> str:
        """Check a call's arguments and return the input to store, defaults included.

        Raises:
            InputInvalid: They do not fit the signature; lists every problem.
            PayloadTooLarge: The input is above ``DURABLE_JOBS["MAX_PAYLOAD"]``.
            DeclarationInvalid: The schema itself has a ``problem``.
        """
        codec = self._codec or self._resolved()
        values = {**self._defaults, **kwargs} if self._defaults else dict(kwargs)
        problems = self._place(args, kwargs, values) if args else []
        try:
            text = codec.encode(values, subject=f"Input of job '{self.job}'")
        except PayloadInvalid as error:
            raise InputInvalid(self.job, [*problems, *self._explained(error)]) from None
        if problems:
            raise InputInvalid(self.job, problems)
        return text

    def load(self, json_text: str | bytes) -> dict[str, Any]:
        """Return the keyword arguments that stored input stands for.

        A parameter that was added since, with a default, takes its default.

        Raises:
            InputInvalid: The input no longer fits the signature.
            DeclarationInvalid: The schema itself has a ``problem``.
        """
        codec = self._codec or self._resolved()
        try:
            values = codec.decode(json_text)
            if len(values) < len(self.names):
                # Read anew each time, so that no two runs share a mutable default.
                total = {**json.loads(self._stored_defaults), **json.loads(json_text)}
                values = codec.decode_json(total)
        except PayloadInvalid as error:
            raise InputInvalid(self.job, self._explained(error)) from None
        return cast(dict[str, Any], values)

    def json_schema(self) -> dict[str, Any]:
        """Describe the stored input as JSON Schema, defaults included.

        Raises:
            DeclarationInvalid: The schema itself has a ``problem``.
        """
        schema = (self._codec or self._resolved()).json_schema()
        schema["title"] = self.job
        for name, default in json.loads(self._stored_defaults).items():
            schema["properties"][name]["default"] = default
        return schema

    def _place(
        self, args: Sequence[object], kwargs: Mapping[str, object], values: dict[str, object]
    ) -> list[tuple[str, str]]:
        problems = []
        if len(args) > len(self._positional):
            most = len(self._positional)
            problems.append(("args", f"holds {len(args)} values; at most {most} go by position"))
        for name, value in zip(self._positional, args, strict=False):
            if name in kwargs:
                problems.append((name, "is given twice, by position and by name"))
            values[name] = value
        return problems

    def _explained(self, error: PayloadInvalid) -> list[tuple[str, str]]:
        takes = ", ".join(self.names) or "no input"
        foreign = f"is not a parameter of this job, which takes {takes}"
        return [
            (path or "input", foreign if self._is_foreign(path, message) else message)
            for path, message in error.problems
        ]

    def _is_foreign(self, path: str, message: str) -> bool:
        return message == UNEXPECTED and path not in self.names and path.isidentifier()

    def _resolved(self) -> Codec:
        self.resolve()
        if self._problem is not None:
            raise self._problem
        return cast(Codec, self._codec)

    def _build(self) -> tuple[Codec, str]:
        hints = {parameter.name: self._hint(parameter) for parameter in self._inputs}
        defaults = {name: self._encode_default(name, hints[name]) for name in self._defaults}
        fields = {
            name: NotRequired[hint] if name in self._defaults else hint
            for name, hint in hints.items()
        }
        # A TypedDict, because its keys may be any parameter's name; fields of a model
        # could not be called ``copy``, ``json`` or ``model_config``.
        shape = TypedDict("Input", fields)  # type: ignore[misc]  # made from data
        return Codec(shape), f"{{{', '.join(defaults.values())}}}"

    def _hint(self, parameter: inspect.Parameter) -> Any:
        """Resolve one parameter's annotation and make sure that it can be stored."""
        if parameter.annotation is parameter.empty:
            return Any
        name = parameter.name
        try:
            hint = resolve_hint(self._fn, parameter.annotation)
        except Exception as error:
            # A hint is any expression, so evaluating it may raise anything.
            raise DeclarationInvalid(
                self.job,
                f"has parameter '{name}', whose type hint {parameter.annotation!r} cannot be "
                f"resolved: {type(error).__name__}: {error}.",
                "Import the type at module level, outside `if TYPE_CHECKING`.",
            ) from error
        if any(is_django_model(part) for part in _parts(hint)):
            raise DeclarationInvalid(
                self.job,
                f"has parameter '{name}' of type {type_name(hint)}, a Django model, which would "
                "be stale when the job runs.",
                "Take its primary key and load it in the job.",
            )
        try:
            Codec(hint)
        except PayloadTypeUnsupported as error:
            raise DeclarationInvalid(
                self.job, f"has parameter '{name}': {error.cause}", error.fix
            ) from error
        return hint

    def _encode_default(self, name: str, hint: Any) -> str:
        try:
            text = Codec(hint).encode(
                self._defaults[name], subject="Default", path="default", limit=NO_BOUND
            )
        except PayloadInvalid as error:
            raise DeclarationInvalid(
                self.job,
                f"has parameter '{name}', whose default does not fit its type: {error.problem}.",
                "Change the default, or the annotation, for example to `| None`.",
            ) from error
        return f"{json.dumps(name)}: {text}"


_KIND_REFUSED: Final[dict[object, tuple[str, str]]] = {
    inspect.Parameter.VAR_POSITIONAL: (
        "which takes any number of values",
        "Name each input; take a list for many.",
    ),
    inspect.Parameter.VAR_KEYWORD: (
        "which takes any name",
        "Name each input; take a dict for free-form data.",
    ),
    inspect.Parameter.POSITIONAL_ONLY: (
        "which is positional-only, while inputs are stored by name",
        "Remove the `/` from the signature.",
    ),
}


def signature_of(fn: Callable[..., Any]) -> inspect.Signature:
    if sys.version_info >= (3, 14):
        import annotationlib

        # Hints are resolved later; evaluating them here would fail on forward references.
        return inspect.signature(fn, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(fn)


def resolve_hint(fn: Callable[..., Any], annotation: Any) -> Any:
    """The type that one annotation of *fn* stands for; the others may be unresolvable.

    Raises:
        Exception: Whatever evaluating it raised, for it is any expression.
    """
    holder = SimpleNamespace(__annotations__={"hint": annotation})
    namespace = getattr(inspect.unwrap(fn), "__globals__", {})
    return typing.get_type_hints(holder, namespace, include_extras=True)["hint"]


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for part in typing.get_args(hint):
        yield from _parts(part)
