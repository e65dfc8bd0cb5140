"""Fail with one sentence when a program that a make target needs is not on PATH.

Usage: need_programs.py TARGET PROGRAM[,OTHER NAME…]…
"""

import shutil
import sys


def main() -> None:
    target, *wanted = sys.argv[1:]
    for names in (entry.split(",") for entry in wanted):
        if not any(shutil.which(name) for name in names):
            *others, last = names
            listed = f"{', '.join(others)} or {last}" if others else last
            sys.exit(f"{target} needs {listed} on PATH, and there is none: install it first.")


if __name__ == "__main__":
    main()
