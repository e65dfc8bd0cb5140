"""`make test-all`: which interpreters and pairs it takes."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.test_all import SUPPORTED, answers_to, find_interpreters

RUNNING = "{}.{}".format(*sys.version_info[:2])


def test_the_running_interpreter_is_found():
    assert find_interpreters()[RUNNING] == Path(sys.executable)


def test_a_program_that_refuses_to_run_is_no_interpreter(tmp_path):
    """A version manager puts a name on PATH for each version it has, chosen or not."""
    shim = tmp_path / f"python{RUNNING}"
    shim.write_text("#!/bin/sh\necho 'command not found' >&2\nexit 127\n")
    shim.chmod(0o755)

    assert not answers_to(shim, RUNNING)
    assert not answers_to(tmp_path / "absent", RUNNING)
    assert not answers_to(Path(sys.executable), "2.7")
    assert answers_to(Path(sys.executable), RUNNING)


def test_every_supported_django_has_an_interpreter_that_is_supported_too():
    declared = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text()
    oldest = min((p for ps in SUPPORTED.values() for p in ps), key=lambda v: int(v.split(".")[1]))

    assert f'requires-python = ">={oldest}"' in declared
    for django in SUPPORTED:
        assert f'"Framework :: Django :: {django}"' in declared
