"""``@job`` makes a job of a function, or says why no worker could honour the declaration."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from django_durable_jobs import Retry, job
from django_durable_jobs.exceptions import (
    ChoiceInvalid,
    DeclarationInvalid,
    DurationInvalid,
    NumberInvalid,
)
from django_durable_jobs.jobs import declared_queues, get_job, registered_jobs
from django_durable_jobs.jobs.registry import scratch_registry

if TYPE_CHECKING:
    from collections import Missing  # type: ignore[attr-defined]  # never imported

HERE = "tests.unit.jobs.test_declare"


@pytest.fixture(autouse=True)
def _clean_registry() -> Iterator[None]:
    with scratch_registry():
        yield


def body(order_id: int = 1) -> int:
    """What the job is for."""
    return order_id


def refusal(fn: Any, **options: Any) -> str:
    with pytest.raises(DeclarationInvalid) as refused:
        job(**options)(fn)
    assert refused.value.code == "X_JOB_DECLARATION_INVALID"
    assert get_job(options.get("name", f"{HERE}.body")) is None
    return str(refused.value)


# -- what is declared --------------------------------------------------------------------------


def test_a_bare_decorator_takes_every_default() -> None:
    declared = job(body)

    assert declared.name == f"{HERE}.body"
    assert (declared.queue, declared.priority, declared.timeout) == ("default", 0, None)
    assert (declared.retry, declared.aliases, declared.atomic) == (Retry(), (), False)
    assert declared.__doc__ == "What the job is for."
    assert get_job(declared.name) is declared


def test_a_direct_call_that_does_not_fit_is_told_of_call_and_enqueue() -> None:
    declared = job(body)

    assert declared(3) == 3
    with pytest.raises(TypeError) as refused:
        declared(amount=3)
    assert refused.value.__notes__ == [
        f"Calling job '{HERE}.body' calls its function as it is written. Run the body here with "
        ".call(...), or store a job with .enqueue(...)."
    ]


def test_a_type_error_of_the_body_itself_carries_no_note() -> None:
    @job
    def adds(amount: int) -> Any:
        return amount + "1"  # type: ignore[operator]  # what the test is about

    with pytest.raises(TypeError) as raised:
        adds(3)
    assert not hasattr(raised.value, "__notes__")


def test_a_job_of_an_installed_app_is_named_by_its_label() -> None:
    from example_project.orders.jobs import fulfil

    assert fulfil.name == "orders.fulfil"


def test_options_are_taken() -> None:
    declared = job(
        name="shop.charge",
        queue="billing",
        priority=-3,
        retry=Retry(attempts=3),
        timeout="5m",
        aliases=["shop.pay", "shop.bill"],
        atomic=True,
    )(body)

    assert (declared.name, declared.queue, declared.priority) == ("shop.charge", "billing", -3)
    assert (declared.retry.attempts, declared.timeout) == (3, timedelta(minutes=5))
    assert declared.atomic
    assert get_job("shop.pay") is get_job("shop.bill") is declared
    assert [one for one in registered_jobs() if one is declared] == [declared]


def test_a_decorated_function_keeps_its_own_options() -> None:
    """Retrying decorators leave attributes on the function that are called like ours."""

    @functools.wraps(body)
    def wrapped(order_id: int = 1) -> int:
        return body(order_id)

    for attribute in ("retry", "name", "queue", "timeout", "inputs", "priority"):
        setattr(wrapped, attribute, "of the other decorator")
    declared = job(name="shop.wrapped", queue="mail")(wrapped)

    assert (declared.name, declared.queue, declared.timeout) == ("shop.wrapped", "mail", None)
    assert declared.retry == Retry()
    assert declared.__doc__ == "What the job is for."
    assert declared(7) == 7


def test_the_queues_are_those_that_jobs_name_and_the_default_one() -> None:
    job(name="shop.a", queue="mail")(body)

    assert declared_queues()[0] == "default"
    assert "mail" in declared_queues()


def test_an_unknown_name_answers_nothing() -> None:
    assert get_job("shop.nothing") is None


# -- what is refused ---------------------------------------------------------------------------


async def coroutine() -> None: ...


async def async_generator() -> AsyncIterator[int]:
    yield 1


def generator() -> Iterator[int]:
    yield 1


class Callable:
    def __call__(self) -> None: ...

    def method(self) -> None: ...


NOT_A_FUNCTION = "is not a function. Put @job on a def or an async def, outermost."
GENERATOR = "is a generator: calling it would run nothing. Return instead of yield."


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (async_generator, f"Job 'async_generator' {GENERATOR}"),
        (generator, f"Job 'generator' {GENERATOR}"),
        (Callable, f"Job 'Callable' {NOT_A_FUNCTION}"),
        (Callable(), f"Job 'Callable' {NOT_A_FUNCTION}"),
        (Callable().method, f"Job 'Callable.method' {NOT_A_FUNCTION}"),
        (functools.partial(body, 1), f"Job 'partial' {NOT_A_FUNCTION}"),
        (staticmethod(body), f"Job 'body' {NOT_A_FUNCTION}"),
        (len, f"Job 'len' {NOT_A_FUNCTION}"),
        (7, f"Job 'int' {NOT_A_FUNCTION}"),
    ],
)
def test_only_a_function_can_be_a_job(fn: Any, message: str) -> None:
    assert refusal(fn, name="shop.refused") == message


def test_an_async_function_is_a_job_and_is_known_as_one() -> None:
    declared = job(name="shop.coroutine")(coroutine)

    assert declared.is_async
    assert not job(name="shop.body")(body).is_async


def test_an_async_function_cannot_be_one_transaction() -> None:
    assert refusal(coroutine, name="shop.coroutine", atomic=True) == (
        "Job 'shop.coroutine' is atomic and async, but a transaction of Django's holds plain code "
        "only. Declare a plain function, or do the database work in ctx.step.atomic()."
    )


def takes_many(*orders: int) -> None: ...


def takes_any_name(**orders: int) -> None: ...


def takes_by_place(order_id: int, /) -> None: ...


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (
            takes_many,
            "has parameter 'orders', which takes any number of values. "
            "Name each input; take a list for many.",
        ),
        (
            takes_any_name,
            "has parameter 'orders', which takes any name. "
            "Name each input; take a dict for free-form data.",
        ),
        (
            takes_by_place,
            "has parameter 'order_id', which is positional-only, while inputs are stored by "
            "name. Remove the `/` from the signature.",
        ),
    ],
)
def test_a_signature_that_is_no_schema_is_refused(fn: Any, message: str) -> None:
    assert refusal(fn, name="shop.refused") == f"Job 'shop.refused' {message}"


DURATION = 'Give a timedelta, a number of seconds, or text such as "30s", "5m" or "1h30m".'


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retry": 5}, "has a retry of type int. Write retry=Retry(attempts=5)."),
        (
            {"retry": {"attempts": 5}},
            "has a retry of type dict. Write retry=Retry(attempts=5).",
        ),
        ({"timeout": 0}, "has a timeout of zero. Leave it out for no limit."),
        ({"timeout": "0s"}, "has a timeout of zero. Leave it out for no limit."),
        ({"timeout": -1}, f"has a timeout that is negative. {DURATION}"),
        ({"timeout": "soon"}, f"has a timeout that is not a duration. {DURATION}"),
        ({"timeout": float("inf")}, f"has a timeout that is not finite. {DURATION}"),
        ({"timeout": True}, f"has a timeout that is a bool, not a duration. {DURATION}"),
        ({"priority": "high"}, "has a priority that is a str, not a whole number."),
        ({"priority": 40_000}, "has a priority that is out of range: -32767 to 32767."),
        (
            {"idempotency_key": "order"},
            "has an idempotency_key of type str, not a function. Give a function of one argument.",
        ),
        (
            {"tenant": 7},
            "has a tenant of type int, not a function. Give a function of one argument.",
        ),
        (
            {"on_settled": "notify"},
            "has an on_settled of type str, not a function. Give a function of one argument.",
        ),
        ({"queue": None}, "has a queue that is of type NoneType, not text."),
        ({"aliases": "shop.pay"}, "has aliases that are one text. Give a list: aliases=[...]."),
        ({"atomic": "yes"}, "has an atomic that is neither True nor False."),
    ],
)
def test_an_option_that_cannot_be_honoured_is_refused(options: Any, message: str) -> None:
    assert refusal(body, name="shop.refused", **options) == f"Job 'shop.refused' {message}"


@pytest.mark.parametrize("attempts", [0, -1, 1.5, float("nan"), float("inf"), True, "5"])
def test_attempts_are_a_whole_number_of_at_least_one(attempts: Any) -> None:
    with pytest.raises(NumberInvalid, match=r"^Retry\.attempts must be "):
        Retry(attempts=attempts)


@pytest.mark.parametrize(
    "options",
    [{"backoff": "random"}, {"jitter": "some"}, {"dead_letter": "no"}],
)
def test_a_choice_of_a_retry_is_one_of_its_values(options: Any) -> None:
    with pytest.raises(ChoiceInvalid):
        Retry(**options)


def test_a_delay_of_a_retry_is_a_duration() -> None:
    with pytest.raises(DurationInvalid) as refused:
        Retry(delay="soon")

    assert str(refused.value) == f"Retry.delay is not a duration. {DURATION}"


# -- what shows only later ---------------------------------------------------------------------


def with_a_context_known_to_type_checkers_only(ctx: Missing, order_id: int) -> str:
    return str(order_id)


def with_an_unknown_input(order: Missing) -> None: ...


def with_an_unknown_result(order_id: int) -> Missing:
    return order_id


def with_a_result_without_json(order_id: int) -> Iterator[int]:
    return iter([order_id])


def problems(fn: Any) -> list[str]:
    return [str(problem) for problem in job(name="shop.later")(fn).problems()]


def test_a_sound_declaration_has_no_problem() -> None:
    assert problems(body) == []


def test_the_type_of_the_context_need_not_be_importable() -> None:
    declared = job(name="shop.later")(with_a_context_known_to_type_checkers_only)

    assert declared.problems() == []
    assert declared.dump_result("7") == '"7"'


def test_an_input_whose_type_cannot_be_resolved_is_a_problem() -> None:
    assert problems(with_an_unknown_input) == [
        "Job 'shop.later' has parameter 'order', whose type hint 'Missing' cannot be resolved: "
        "NameError: name 'Missing' is not defined. "
        "Import the type at module level, outside `if TYPE_CHECKING`."
    ]


def test_a_result_whose_type_cannot_be_resolved_is_a_problem() -> None:
    assert problems(with_an_unknown_result) == [
        "Job 'shop.later' has the return annotation 'Missing', which cannot be resolved: "
        "NameError: name 'Missing' is not defined. "
        "Import the type at module level, outside `if TYPE_CHECKING`."
    ]


def test_a_result_whose_type_has_no_json_form_is_a_problem() -> None:
    (problem,) = problems(with_a_result_without_json)

    assert problem.startswith("Job 'shop.later' has a return annotation without a JSON form: ")
    assert problem.endswith("Use JSON types, a dataclass or a Pydantic model.")


def test_a_queue_that_the_settings_do_not_list_is_a_problem(settings) -> None:
    settings.DURABLE_JOBS = {"QUEUES": {"default": {}}}

    assert [str(one) for one in job(name="shop.a", queue="mail")(body).problems()] == [
        "Job 'shop.a' names queue 'mail', which is not declared. Declared queues: 'default'. "
        "Add 'mail' to DURABLE_JOBS[\"QUEUES\"] or change the job."
    ]


# -- versions ----------------------------------------------------------------------------------


def test_a_job_has_no_version_unless_one_is_declared() -> None:
    declared = job(body)

    assert (declared.version, declared.on_version_change) == ("", "continue")


@pytest.mark.parametrize("rule", ["continue", "fail", "wait"])
def test_a_version_and_what_becomes_of_other_ones_are_declared(rule: Any) -> None:
    declared = job(version="2026-07", on_version_change=rule)(body)

    assert (declared.version, declared.on_version_change) == ("2026-07", rule)


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        (2, "has a version that is of type int, not text."),
        ("  ", "has a version that is blank."),
        ("a\0", "has a version that holds a NUL character, which PostgreSQL cannot store."),
        ("x" * 201, "has a version that takes 201 bytes as UTF-8; the limit is 200."),
    ],
)
def test_a_version_that_cannot_be_stored_is_refused(version: Any, reason: str) -> None:
    assert refusal(body, version=version) == f"Job '{HERE}.body' {reason}"


def test_a_rule_for_changes_without_a_version_is_refused() -> None:
    assert refusal(body, on_version_change="wait") == (
        f"Job '{HERE}.body' has an on_version_change and no version that could change. "
        'Declare one: version="1".'
    )


@pytest.mark.parametrize("rule", ["ignore", "", 1, True, ["fail"]])
def test_a_rule_that_is_none_of_the_choices_is_refused(rule: Any) -> None:
    assert refusal(body, version="1", on_version_change=rule) == (
        f"Job '{HERE}.body' has an on_version_change that is not one of its choices. "
        "Choose one of 'continue', 'fail', 'wait'."
    )
