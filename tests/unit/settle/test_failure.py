"""Any exception becomes text that the database keeps, and that people can group and read."""

from __future__ import annotations

import traceback

import pytest

from django_durable_jobs.exceptions import JobTimeout
from django_durable_jobs.settle import describe_failure
from django_durable_jobs.settle.failure import MAX_MESSAGE, MAX_TRACEBACK
from django_durable_jobs.steps import JobContext


class GatewayAway(Exception):
    code = "X_GATEWAY"


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class UnreadableCode(Exception):
    @property
    def code(self):
        raise RuntimeError("no code")


def raised(error):
    try:
        raise error
    except BaseException as caught:
        return caught


def describe(error):
    return describe_failure(error, job_name="shop.pay")


def test_a_failure_names_class_message_and_code():
    failure = describe(raised(GatewayAway("The gateway is away.")))

    assert failure.error_class == f"{__name__}.GatewayAway"
    assert failure.message == "The gateway is away."
    assert failure.code == "X_GATEWAY"
    assert failure.traceback.rstrip().endswith("GatewayAway: The gateway is away.")
    assert "raise error" in failure.traceback


def test_a_builtin_error_is_named_without_its_module():
    assert describe(ValueError("bad")).error_class == "ValueError"


@pytest.mark.parametrize("code", [404, None, b"X", ["X"]])
def test_a_code_that_is_not_text_is_no_code(code):
    error = ValueError("bad")
    error.code = code  # type: ignore[attr-defined] # other libraries do

    assert describe(error).code == ""


def test_a_failure_of_this_package_keeps_its_code():
    assert describe(JobTimeout("shop.pay", 5)).code == "X_JOB_TIMEOUT"


def test_nul_and_lone_surrogates_are_escaped_so_that_the_failure_itself_can_be_stored():
    error = ValueError("a\0b\ud800")
    error.code = "X\0"  # type: ignore[attr-defined] # other libraries do
    failure = describe(raised(error))

    assert failure.message == "a\\x00b\\ud800"
    assert failure.code == "X\\x00"
    for text in (failure.message, failure.traceback, failure.code):
        assert "\0" not in text
        text.encode()


def test_a_long_message_is_cut():
    failure = describe(raised(ValueError("x" * 1_000_000)))

    assert failure.message == "x" * MAX_MESSAGE


def test_a_long_traceback_keeps_its_head_and_its_tail():
    error = raised(ValueError("begin " + "é" * 100_000 + " end"))
    failure = describe(error)

    assert len(failure.traceback.encode()) <= MAX_TRACEBACK
    assert failure.traceback.startswith("Traceback (most recent call last):\n")
    assert "begin" in failure.traceback
    assert "… [left out] …" in failure.traceback
    assert failure.traceback.rstrip().endswith(" end")


def test_endless_recursion_is_described():
    def sink(depth):
        return sink(depth + 1)

    with pytest.raises(RecursionError) as caught:
        sink(0)
    failure = describe(caught.value)

    assert failure.error_class == "RecursionError"
    assert len(failure.traceback.encode()) <= MAX_TRACEBACK


def test_an_error_whose_own_text_raises_is_described():
    failure = describe(raised(Unprintable()))

    assert failure.message == "(its message could not be written: RuntimeError)"
    assert "Unprintable" in failure.traceback


def test_an_error_whose_code_raises_has_none():
    assert describe(raised(UnreadableCode())).code == ""


def test_the_cause_of_an_error_is_in_its_traceback():
    try:
        try:
            raise ValueError("first")
        except ValueError as error:
            raise GatewayAway("second") from error
    except GatewayAway as error:
        text = describe(error).traceback

    assert "ValueError: first" in text
    assert "direct cause" in text


def test_a_group_shows_every_error_in_it():
    text = describe(raised(ExceptionGroup("both", [ValueError("a"), KeyError("b")]))).traceback

    assert "ValueError: a" in text
    assert "KeyError: 'b'" in text


def test_frames_of_the_package_around_the_body_are_left_out_and_those_inside_it_kept():
    ctx = JobContext.inline("shop.pay")

    def fails():
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside") as caught:
        ctx.step.run("pay", fails)
    error = caught.value
    whole = "".join(traceback.format_exception(error))
    assert "timed.py" in describe(error).traceback

    assert error.__traceback__ is not None
    error.__traceback__ = error.__traceback__.tb_next
    text = describe(error).traceback

    assert "timed.py" in whole
    assert "timed.py" not in text
    assert "in fails" in text


def failing(number):
    raise ValueError(f"order {number}")


def other_place(number):
    raise ValueError(f"order {number}")


def fingerprint(act, number=1, job="shop.pay"):
    with pytest.raises(ValueError, match="order") as caught:
        act(number)
    return describe_failure(caught.value, job_name=job).fingerprint


def test_failures_at_one_place_share_a_fingerprint_whatever_their_message():
    assert fingerprint(failing, 1) == fingerprint(failing, 2)
    assert len(fingerprint(failing)) == 16


def test_another_place_class_or_job_has_another_fingerprint():
    assert (
        len(
            {
                fingerprint(failing),
                fingerprint(other_place),
                fingerprint(failing, job="shop.ship"),
                describe(raised(KeyError())).fingerprint,
                describe(raised(ValueError())).fingerprint,
            }
        )
        == 5
    )


def test_an_error_that_was_never_raised_is_described():
    failure = describe(ValueError("made"))

    assert failure.traceback == "ValueError: made\n"
    assert failure.fingerprint
