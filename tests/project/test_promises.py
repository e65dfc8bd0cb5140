"""README's table of promises names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFORMANCE = ROOT / "django_durable_jobs" / "testing" / "conformance"


def rows() -> list[tuple[str, str]]:
    table = (ROOT / "README.md").read_text().split("## Promises", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"^\| (?!promise|---)(.+?) \| (.+?) \|$", table, re.M)
    assert len(found) >= 8
    return found


def names_of_tests(path: Path) -> set[str]:
    """Names of the tests below *path*, as ``test_x`` and ``TestX::test_x``."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            methods = (item for item in node.body if isinstance(item, ast.FunctionDef))
            names |= {f"{node.name}::{method.name}" for method in methods}
    return names


@pytest.mark.parametrize(("promise", "proof"), rows(), ids=[row[0][:40] for row in rows()])
def test_every_promise_names_a_test_that_exists(promise, proof):
    path, *names = [
        part for quoted in re.findall(r"`([^`]+)`", proof) for part in quoted.split("::", 1)
    ]
    file = ROOT / path
    assert file.is_file()
    known = names_of_tests(file)
    if names and names[0].startswith("Test"):
        known = set().union(*(names_of_tests(suite) for suite in CONFORMANCE.glob("test_*.py")))
    assert not names or "::".join(names) in known
    assert names or any(name.split("::")[-1].startswith("test_") for name in known)
