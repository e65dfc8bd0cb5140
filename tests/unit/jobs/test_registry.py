"""Each name stands for one job of the process."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from django_durable_jobs import job
from django_durable_jobs.exceptions import JobNameTaken
from django_durable_jobs.jobs import get_job
from django_durable_jobs.jobs.registry import scratch_registry

HERE = "tests.unit.jobs.test_registry"


@pytest.fixture(autouse=True)
def _clean_registry() -> Iterator[None]:
    with scratch_registry():
        yield


def body() -> None: ...


def first() -> None: ...


def second() -> None: ...


def place(fn: Any) -> str:
    return f"{HERE}.{fn.__name__} ({fn.__code__.co_filename}:{fn.__code__.co_firstlineno})"


@pytest.mark.parametrize(
    ("options", "other", "taken"),
    [
        ({"name": "shop.a"}, {"name": "shop.a"}, "shop.a"),
        ({"name": "shop.a", "aliases": ["shop.old"]}, {"name": "shop.old"}, "shop.old"),
        ({"name": "shop.a"}, {"name": "shop.b", "aliases": ["shop.a"]}, "shop.a"),
        (
            {"name": "shop.a", "aliases": ["shop.old"]},
            {"name": "shop.b", "aliases": ["shop.old"]},
            "shop.old",
        ),
    ],
    ids=["names", "alias and name", "name and alias", "aliases"],
)
def test_a_name_that_is_taken_is_refused_with_both_places(
    options: Any, other: Any, taken: str
) -> None:
    holder = job(**options)(first)

    with pytest.raises(JobNameTaken) as refused:
        job(**other)(second)

    assert str(refused.value) == (
        f"Job name '{taken}' is declared twice: by {place(first)} and by {place(second)}. "
        'Give one of them another name with @job(name="...").'
    )
    assert refused.value.code == "X_JOB_DUPLICATE"
    assert get_job(taken) is holder
    assert get_job("shop.b") is None


def test_one_function_declared_twice_under_a_name_is_refused() -> None:
    """A loop around ``@job`` would keep only the last of its jobs."""

    def make(number: int) -> None:
        @job(name="shop.numbered")
        def numbered() -> int:
            return number

    make(1)
    with pytest.raises(JobNameTaken):
        make(2)

    holder = get_job("shop.numbered")
    assert holder is not None
    assert holder() == 1


def test_one_function_may_be_several_jobs() -> None:
    slow = job(name="shop.slow", queue="slow")(body)
    fast = job(name="shop.fast")(body)

    assert (get_job("shop.slow"), get_job("shop.fast")) == (slow, fast)


def test_an_alias_that_repeats_the_name_is_harmless() -> None:
    declared = job(name="shop.a", aliases=["shop.a", "shop.old", "shop.old"])(body)

    assert get_job("shop.a") is get_job("shop.old") is declared


def test_a_module_that_is_loaded_again_declares_its_jobs_anew(tmp_path, monkeypatch) -> None:
    module = tmp_path / "reloaded_jobs.py"
    module.write_text(
        "from django_durable_jobs import job\n\n"
        "@job(name='shop.reloaded')\ndef reloaded() -> int:\n    return 1\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    loaded = importlib.import_module("reloaded_jobs")
    try:
        before = get_job("shop.reloaded")
        importlib.reload(loaded)
    finally:
        del sys.modules["reloaded_jobs"]

    assert get_job("shop.reloaded") is loaded.reloaded
    assert loaded.reloaded is not before
