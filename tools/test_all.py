"""Run the test suite on every supported pair of Python and Django that this machine can build.

Interpreters are looked for on PATH (`python3.X`) and among pyenv's versions. Each pair gets an
environment of its own below `.envs/`, made anew when pyproject.toml changed. Says at the end which
pairs passed, which failed and which it could not run, and fails if any failed or none ran.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Oldest first; which Python each Django release supports is said in its release notes.
SUPPORTED = {
    "5.2": ("3.11", "3.12", "3.13", "3.14"),
    "6.0": ("3.12", "3.13", "3.14"),
    "6.1": ("3.12", "3.13", "3.14"),
}


@dataclass(frozen=True)
class Pair:
    python: str
    django: str

    def __str__(self) -> str:
        return f"{self.python}/{self.django}"

    @property
    def environment(self) -> Path:
        return ROOT / ".envs" / f"python{self.python}-django{self.django}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ends", action="store_true", help="only the oldest and the newest pair")
    parser.add_argument("--skip", metavar="PYTHON/DJANGO", help="a pair that was run already")
    parser.add_argument("tests", nargs="*", help="passed to pytest")
    options = parser.parse_args()

    interpreters = find_interpreters()
    pairs = [Pair(python, django) for django, pythons in SUPPORTED.items() for python in pythons]
    chosen = [pair for pair in pairs if pair.python in interpreters]
    if options.ends:
        chosen = chosen[:1] + chosen[1:][-1:]
    chosen = [pair for pair in chosen if str(pair) != options.skip]

    outcome = {pair: run(pair, interpreters[pair.python], options.tests) for pair in chosen}
    print("\nPython/Django")
    for pair, said in outcome.items():
        print(f"  {pair}: {said}")
    for pair in pairs:
        if pair.python not in interpreters:
            print(f"  {pair}: not run, there is no Python {pair.python} here")
    if not outcome and options.skip is None:
        sys.exit("No supported Python was found.")
    if any(said != "passed" for said in outcome.values()):
        sys.exit(1)


def find_interpreters() -> dict[str, Path]:
    """Return a working interpreter for each supported version of Python that has one."""
    found: dict[str, Path] = {}
    for version in sorted({python for pythons in SUPPORTED.values() for python in pythons}):
        candidates = [Path(sys.executable)]
        if on_path := shutil.which(f"python{version}"):
            candidates.append(Path(on_path))
        candidates += sorted(Path.home().glob(f".pyenv/versions/{version}*/bin/python"))
        for candidate in candidates:
            if answers_to(candidate, version):
                found[version] = candidate
                break
    return found


def answers_to(interpreter: Path, version: str) -> bool:
    """Tell whether it starts, is of the version and can make environments.

    pyenv's shims are on PATH for every version it has, and refuse to run all but the chosen one.
    """
    question = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    try:
        answer = subprocess.run(
            [str(interpreter), "-c", question], capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0 and answer.stdout.strip() == version


def run(pair: Pair, interpreter: Path, tests: list[str]) -> str:
    print(f"\n=== Python {pair.python}, Django {pair.django}", flush=True)
    python = pair.environment / "bin" / "python"
    stamp = pair.environment / ".installed"
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        commands = [
            [str(interpreter), "-m", "venv", "--clear", str(pair.environment)],
            [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet",
             "--editable", f"{ROOT}[test]", f"Django~={pair.django}.0"],
        ]  # fmt: skip
        for command in commands:
            if subprocess.call(command, cwd=ROOT) != 0:
                return "failed to install"
        stamp.write_text(wanted)
    code = subprocess.call([str(python), "-m", "pytest", *tests], cwd=ROOT)
    return "passed" if code == 0 else f"failed (pytest ended with {code})"


if __name__ == "__main__":
    main()
