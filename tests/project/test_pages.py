"""README.md, docs/ and the contributor pages: what they point at is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob(".github/*.md"), *DOCS.rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)#\s]+)(?:#[^)]*)?\)")
MAKE = re.compile(r"(?:^|`)make (?P<target>[a-z][a-z-]*)", re.MULTILINE)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def linked_from(page: Path) -> set[Path]:
    targets = (match["target"] for match in LINK.finditer(page.read_text()))
    return {(page.parent / target).resolve() for target in targets if "://" not in target}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_to_a_file_that_is_there(page):
    assert {path for path in linked_from(page) if not path.exists()} == set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_make_command_named_is_a_target(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {match["target"] for match in MAKE.finditer(page.read_text())}

    assert named - targets == set()


def test_every_page_of_the_docs_stands_in_the_index():
    index = DOCS / "README.md"

    assert set(DOCS.rglob("*.md")) - {index} - linked_from(index) == set()
