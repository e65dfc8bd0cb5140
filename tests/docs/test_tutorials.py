"""The tutorials show the code that the shop runs, and that they themselves run at their end."""

from __future__ import annotations

from pathlib import Path

import pytest

from .test_examples import ROOT, blocks_of

TUTORIALS = ROOT / "docs" / "tutorial"
SHOP = ROOT / "example_project" / "orders" / "jobs.py"


def lines_of(text: str) -> set[str]:
    return {line.strip() for line in text.splitlines() if line.strip()}


def shown_only(page: Path) -> set[str]:
    """The lines of the page's Python that are not run, without what is typed into a shell."""
    blocks = (block for block in blocks_of(page.read_text()) if block.info == "python")
    return {
        line
        for block in blocks
        if not block.code.startswith(">>>")
        for line in lines_of(block.code)
        if not line.startswith("#")
    }


def test_first_steps_shows_what_the_shop_runs():
    assert shown_only(TUTORIALS / "first-steps.md") - lines_of(SHOP.read_text()) == set()


@pytest.mark.parametrize("name", ["order-flow.md"])
def test_a_tutorial_builds_what_it_runs_in_the_end(name):
    page = TUTORIALS / name
    run = {
        line
        for block in blocks_of(page.read_text())
        if block.info == "python test"
        for line in lines_of(block.code)
    }

    assert shown_only(page) - run == set()
