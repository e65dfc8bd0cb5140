"""The conformance suite is whole."""

from __future__ import annotations

import ast
from pathlib import Path

from django_durable_jobs.store import JobStore
from django_durable_jobs.testing import conformance

SUITE = Path(conformance.__file__).parent


def parsed() -> list[ast.Module]:
    return [ast.parse(path.read_text()) for path in SUITE.glob("*.py")]


def test_every_class_of_tests_is_handed_to_driver_authors():
    written = {
        node.name
        for module in parsed()
        for node in module.body
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test")
    }

    assert written == {name for name in conformance.__all__ if name != "clock"}


def test_every_verb_of_the_port_is_called_by_the_suite():
    called = {
        node.func.attr
        for module in parsed()
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    verbs = {name for name, value in vars(JobStore).items() if callable(value) and name[0] != "_"}

    assert verbs <= called
