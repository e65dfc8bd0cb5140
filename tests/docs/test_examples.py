"""Runs the examples of README.md and docs/, so that what a reader copies works.

A block fenced as ```` ```python test ```` is run; one fenced as ```` ```python ```` is only shown
(it needs a project of the reader's around it). The blocks of a page run in order and share their
names, as a reader who follows the page would have them; each page is a module of its own. Tests
that a page shows are run at its end.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from django_durable_jobs import clock
from django_durable_jobs.jobs.registry import scratch_registry

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<code>.*?)^(?P=indent)```", re.M | re.S
)
KINDS_OF_PYTHON = {"python", "python test"}


@dataclass(frozen=True)
class Block:
    info: str
    line: int
    code: str


def blocks_of(text: str) -> list[Block]:
    found = []
    for match in FENCE.finditer(text):
        indent = len(match["indent"])
        code = "".join(line[indent:] for line in match["code"].splitlines(keepends=True))
        line = text.count("\n", 0, match.start("code")) + 1
        found.append(Block(match["info"].strip(), line, code))
    return found


def run_page(page: Path, module: ModuleType) -> None:
    """Run the page's examples, and then the tests that they define.

    A traceback names the page and its line.
    """
    for block in blocks_of(page.read_text()):
        if block.info == "python test":
            padded = "\n" * (block.line - 1) + block.code
            # The pages are this repository's own source.
            exec(compile(padded, str(page), "exec"), module.__dict__)  # noqa: S102 -- see above
    for name, shown in list(module.__dict__.items()):
        if name.startswith("test_") and callable(shown):
            shown()
            # What a page's test moved, the next one finds at its place.
            clock.reset()


PAGES = [path for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))] if path.exists()]
RUN = [page for page in PAGES if any(b.info == "python test" for b in blocks_of(page.read_text()))]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_python_block_says_whether_it_is_run(page):
    """A misspelt marker would leave an example unrun without a word."""
    infos = {block.info for block in blocks_of(page.read_text())}

    assert {info for info in infos if info.lower().startswith("py")} <= KINDS_OF_PYTHON


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_the_examples_of_the_page_run(page, monkeypatch):
    module = ModuleType("docs_" + re.sub(r"\W", "_", name_of(page)))
    # Decorators look up the module of what they decorate.
    monkeypatch.setitem(sys.modules, module.__name__, module)

    # What a page declares is known to no other page and no other test.
    with scratch_registry():
        run_page(page, module)


def test_blocks_run_in_order_and_share_their_names(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```python test\nx = 1\n```\n\n```python\nx = 9\n```\n"
        "- item\n\n  ```python test\n  if x:\n      x += 1\n  ```\n"
    )
    module = ModuleType("page")

    run_page(page, module)

    assert module.x == 2


def test_the_tests_that_a_page_shows_are_run(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python test\ndef test_it():\n    assert 1 == 2\n```\n")

    with pytest.raises(AssertionError):
        run_page(page, ModuleType("page"))


def test_a_failing_example_fails_at_its_line_of_the_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python test\nx = 1\nassert x == 2\n```\n")

    with pytest.raises(AssertionError) as failure:
        run_page(page, ModuleType("page"))

    last = failure.traceback[-1]
    assert (str(last.path), last.lineno + 1) == (str(page), 5)
