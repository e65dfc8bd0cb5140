"""The reference has a page for every verb of the steps, and every error of the package."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from django_durable_jobs import exceptions
from django_durable_jobs.exceptions import DurableJobsError
from django_durable_jobs.policies.classification import CLASSES
from django_durable_jobs.steps import AsyncJobContext, JobContext
from django_durable_jobs.steps.asynchronous import AsyncSteps
from django_durable_jobs.steps.values import Steps

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
# Several verbs of one kind share a page.
PAGES = {
    "publish_event": "publish-event",
    "sleep_until": "sleep",
    "wait_for_any": "wait-for-any",
    "wait_for_event": "wait-for-event",
    "now": "values",
    "random": "values",
    "uuid": "values",
}
# Caught, but never raised themselves.
BASES = {"DurableJobsError", "EnqueueRefused", "RunFault", "OperationRefused", "StoreFault"}


def verbs_of(steps: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(steps, callable) if name[0] != "_"}


def page_of(verb: str) -> str:
    return (REFERENCE / "steps" / f"{PAGES.get(verb, verb)}.md").read_text()


def errors() -> dict[str, type[DurableJobsError]]:
    found = inspect.getmembers(exceptions, inspect.isclass)
    return {
        name: each
        for name, each in found
        if issubclass(each, DurableJobsError) and not name.startswith("_")
    }


def test_plain_and_async_bodies_have_the_same_verbs():
    assert verbs_of(Steps) == verbs_of(AsyncSteps)


@pytest.mark.parametrize("verb", sorted(verbs_of(Steps)))
def test_every_verb_has_a_page_with_its_signature_and_its_errors(verb):
    page = page_of(verb)
    shown = re.search(rf"^{verb}\((?P<parameters>.*)\) -> ", page, re.M)

    assert shown is not None
    names = re.findall(r"\*{0,2}([a-z_]+)(?:=[^,]+)?", shown["parameters"])
    assert names == list(inspect.signature(getattr(Steps, verb)).parameters)[1:]
    assert "\n## Errors\n" in page


@pytest.mark.parametrize("verb", sorted(verbs_of(Steps)))
def test_every_verb_has_an_example_for_plain_and_for_async_bodies(verb):
    code = "\n".join(re.findall(r"```python test\n(.*?)```", page_of(verb), re.S))

    assert re.search(rf"(?<!await )ctx\.step\.{verb}\(", code)
    if verb != "sleep_until":
        assert re.search(rf"await ctx\.step\.{verb}\(", code)


@pytest.mark.parametrize("page", sorted((REFERENCE / "steps").glob("*.md")), ids=lambda p: p.stem)
def test_every_page_of_the_steps_stands_in_their_index(page):
    assert f"(steps/{page.name})" in (REFERENCE / "steps.md").read_text()


@pytest.mark.parametrize("name", ["check", "progress", "cancelled", "atomic"])
def test_the_page_of_the_context_tells_what_a_body_may_ask_of_it(name):
    assert hasattr(JobContext, name)
    assert hasattr(AsyncJobContext, name) or name == "atomic"
    assert re.search(rf"`(ctx\.)?{name}\b", (REFERENCE / "context.md").read_text())


@pytest.mark.parametrize(("name", "error"), errors().items(), ids=errors())
def test_every_error_stands_on_the_page_of_errors_with_its_code(name, error):
    page = (REFERENCE / "errors.md").read_text()
    row = re.search(rf"^\| `{name}` \| `(?P<code>\w+)`(?P<terminal> \*terminal\*)? \|", page, re.M)
    if name in BASES:
        assert f"`{name}`" in page
        return

    assert row is not None
    assert row["code"] == error.code
    assert bool(row["terminal"]) == (CLASSES.get(error.code) == "terminal")


def test_the_pages_of_the_steps_give_errors_their_codes():
    for page in [REFERENCE / "steps.md", REFERENCE / "context.md", *REFERENCE.glob("steps/*.md")]:
        for name, code in re.findall(r"^\| `(\w+)` \| `(X_\w+)` \|", page.read_text(), re.M):
            assert errors()[name].code == code, f"{page.name}: {name}"
