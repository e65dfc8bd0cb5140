"""Errors take data, write their own sentence, and survive a copy between processes."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from django_durable_jobs import exceptions
from django_durable_jobs.exceptions import DurableJobsError

MADE = [
    exceptions.DeclarationInvalid("shop.a", "has no body.", "Give it one."),
    exceptions.QueueNotDeclared("shop.a", "mail", ["default"]),
    exceptions.JobNameTaken("shop.a", "here", "there"),
    exceptions.SettingInvalid("LEASE", "is odd."),
    exceptions.DurationInvalid("timeout", "is negative."),
    exceptions.InputInvalid("shop.a", [("order_id", "is required")]),
    exceptions.PayloadTooLarge("Input", 2_000_000, 1_048_576),
    exceptions.OptionInvalid("shop.a", "delay", "is negative."),
    exceptions.JobDuplicate("shop.a", "the-id"),
    exceptions.KeyContended("shop.a", 2.0),
    exceptions.TransactionNotCovered("It was not covered."),
    exceptions.EventRefused("name", "is blank"),
    exceptions.JobTimeout("shop.a", 300),
    exceptions.StepTimeout("shop.a", "charge", 30),
    exceptions.LeaseLost("the-id", "settle"),
    exceptions.Aborted("the-id", "drain"),
    exceptions.Draining(),
    exceptions.JobUnknown("shop.a", 86_400),
    exceptions.ResultUnserializable("shop.a", "result is NaN"),
    exceptions.StepDuplicate("charge"),
    exceptions.StepOutputUnserializable("charge", "output is NaN"),
    exceptions.StepRefused("charge", "is refused."),
    exceptions.EffectsElsewhere("Step 'charge'", "other", "default"),
    exceptions.ChildFailed("ship", "shop.ship", "the-id", "dead", message="no stock"),
    exceptions.EventInvalid("approval", "approved", "the-id", "by is required"),
    exceptions.VersionChanged("shop.a", "1", "2"),
    exceptions.SuspensionSwallowed("shop.a", "cool off"),
    exceptions.OnSettledFailed("shop.a", "the-id", 3),
    exceptions.JobNotFound("the-id"),
    exceptions.JobNotCancellable("the-id", "done"),
    exceptions.JobNotRequeueable("the-id", "running"),
    exceptions.StepNotFound("the-id", "refund", ["charge"]),
    exceptions.JobNotPromotable("the-id", "done"),
    exceptions.JobNotRemovable("the-id", "running"),
    exceptions.PageInvalid("The page is odd."),
    exceptions.BulkTooLarge(2_000, 1_000),
    exceptions.StoreUnavailable("The database is away."),
    exceptions.ClaimQueuesEmpty(),
    exceptions.StateUnknown("the-id", "snoozed"),
    exceptions.PayloadInvalid("Input", [("a", "is NaN")]),
    exceptions.PayloadInvalid("Input", [("a", "is NaN")], "Mend it."),
    exceptions.PayloadTypeUnsupported("Iterator", "it has no JSON form"),
    exceptions.NumberInvalid("limit", "must be finite"),
    exceptions.ChoiceInvalid("jitter", ("'equal'", "'full'")),
]


def public_errors() -> list[type[DurableJobsError]]:
    return [
        value
        for name, value in vars(exceptions).items()
        if isinstance(value, type)
        and issubclass(value, DurableJobsError)
        and not name.startswith("_")
    ]


def drawn() -> dict[str, tuple[str, str | None]]:
    """What the docstring's tree says: name to parent and own code."""
    found: dict[str, tuple[str, str | None]] = {}
    above: list[str] = []
    for line in (exceptions.__doc__ or "").splitlines():
        match = re.match(r"    (?P<rails>[│├└─ ]*)(?P<name>[A-Z]\w+)(?: +(?P<code>X_\w+))?$", line)
        if match is not None:
            depth = len(match["rails"]) // 4
            above[depth:] = [match["name"]]
            found[match["name"]] = (above[depth - 1] if depth else "", match["code"])
    return found


def declared() -> dict[str, tuple[str, str | None]]:
    """What the classes say, read the same way; a private class between two is left out."""
    found: dict[str, tuple[str, str | None]] = {}
    for error in public_errors():
        if error is DurableJobsError:
            found[error.__name__] = ("", None)
            continue
        public = (base for base in error.__mro__[1:] if not base.__name__.startswith("_"))
        found[error.__name__] = (next(public).__name__, vars(error).get("code"))
    return found


def test_the_tree_in_the_docstring_draws_every_error_below_its_parent_with_its_code() -> None:
    assert drawn() == declared()


def test_every_error_that_can_be_raised_is_made_here() -> None:
    bases = {"DurableJobsError", "EnqueueRefused", "RunFault", "OperationRefused", "StoreFault"}

    assert {type(error).__name__ for error in MADE} == {
        error.__name__ for error in public_errors()
    } - bases


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_an_error_says_what_happened_and_what_to_do_in_sentences(error: DurableJobsError) -> None:
    text = str(error)

    assert error.code.startswith("X_")
    assert text == f"{error.cause} {error.fix}".rstrip()
    assert text[0].isupper() or text.startswith(error.cause.split()[0])
    assert "\n" in text or text.endswith((".", "...")), text


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_an_error_survives_copying_and_another_process(error: DurableJobsError) -> None:
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301  our own
        assert type(twin) is type(error)
        assert (str(twin), vars(twin)) == (str(error), vars(error))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "No job named 'shop.a' is declared in this process. Import the module that "
               "declares it, or list the name in aliases=[...]."),
        (90_061, "No worker knew a job named 'shop.a' for 25.02 h. Deploy code that declares it "
                 "(or lists it in aliases=[...]) and requeue the job."),
    ],
)  # fmt: skip
def test_an_unknown_job_is_told_of_this_process_or_of_a_whole_day(
    seconds: float | None, text: str
) -> None:
    assert str(exceptions.JobUnknown("shop.a", seconds)) == text


def test_errors_of_a_wrong_value_are_value_errors() -> None:
    """So that a view which catches those needs not know us."""
    for error in (
        exceptions.InputInvalid("shop.a", []),
        exceptions.OptionInvalid("shop.a", "delay", "is odd."),
        exceptions.PayloadTooLarge("Input", 2, 1),
        exceptions.DurationInvalid("timeout", "is odd."),
    ):
        assert isinstance(error, ValueError)
