"""Fail if a file of the package that git tracks is missing from a built wheel.

Templates, static files, .sql files and py.typed are easily left out, and no import misses them.
Usage: check_wheel.py WHEEL
"""

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "django_durable_jobs"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    tracked = {name for name in listed.stdout.split("\0") if name}
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        packed = set(wheel.namelist())
    if not tracked:
        sys.exit("git lists no file below django_durable_jobs.")
    if missing := sorted(tracked - packed):
        sys.exit(f"Missing from {sys.argv[1]}: {', '.join(missing)}")
    print(f"{sys.argv[1]} holds all {len(tracked)} files of the package")


if __name__ == "__main__":
    main()
