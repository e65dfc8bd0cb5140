"""The orders in the terminal: a table redrawn in place, or in a pipe a line for each change."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from datetime import datetime

from .watch import STEPS, Progress

HEADINGS = ("charge", "record", "cool off", "approval", "ship", "packing", "handover")
# Lines around the rows and the news: two of them blank, the headings, the count, the cursor's.
SURROUNDINGS = 5
NEWS_LINES = 3
COLOURS = {
    "done": "32",
    "runs": "33;1",
    "waits": "36",
    "sleeps": "34",
    "calls": "35",
    "again": "31;1",
}


class Screen:
    """Shows progress. What is told with `say` stays; the table is drawn over."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._news: list[str] = []
        self._drawn = 0
        self._seen: dict[str, tuple[str, ...]] = {}
        self._in_place = sys.stdout.isatty()
        if not self._in_place:
            print(title, flush=True)

    def say(self, sentence: str) -> None:
        line = f"{datetime.now().astimezone():%H:%M:%S} {sentence}"
        self._news.append(line)
        if not self._in_place:
            print(line, flush=True)

    def show(self, orders: Sequence[Progress]) -> None:
        if self._in_place:
            self._redraw(self._table(orders))
        else:
            self._print_changes(orders)

    def _redraw(self, lines: list[str]) -> None:
        # Up to the first line of the last drawing, and clear from there. All in one go: an
        # interruption leaves a whole table.
        back = f"\x1b[{self._drawn}F\x1b[J" if self._drawn else ""
        sys.stdout.write(back + "\n".join(lines) + "\n")
        sys.stdout.flush()
        self._drawn = len(lines)

    def _table(self, orders: Sequence[Progress]) -> list[str]:
        width, height = shutil.get_terminal_size()
        title = self._title.splitlines()
        room = max(3, height - SURROUNDINGS - len(title) - NEWS_LINES)
        heading = "order   " + "".join(f"{text:<9}" for text in HEADINGS) + "trouble"
        shown = orders
        if len(orders) > room:
            # The finished ones give way first; the order of the rest stays.
            shown = sorted(orders, key=lambda order: order.is_settled)[:room]
            shown = [order for order in orders if order in shown]
        settled = sum(order.is_done for order in orders)
        hidden = len(orders) - len(shown)
        below = f"{settled} of {len(orders)} orders shipped"
        if hidden:
            below += f"; {hidden} not shown, the terminal is too low"
        news = self._news[-NEWS_LINES:]
        plain = [*title, "", heading]
        return [
            *(line[: width - 1] for line in plain),
            *(self._row(order, width) for order in shown),
            "",
            below[: width - 1],
            *(line[: width - 1] for line in news),
        ]

    def _row(self, order: Progress, width: int) -> str:
        cells = [f"{word:<9}" for word in order.words]
        trouble = ", ".join(order.trouble)
        row = f"{order.number:<8}" + "".join(cells) + trouble
        if len(row) >= width:
            return row[: width - 1]
        coloured = (
            f"\x1b[{COLOURS[word]}m{cell}\x1b[0m" if word in COLOURS else cell
            for word, cell in zip(order.words, cells, strict=True)
        )
        return f"{order.number:<8}" + "".join(coloured) + trouble

    def _print_changes(self, orders: Sequence[Progress]) -> None:
        for order in orders:
            before = self._seen.get(order.number, ("",) * len(STEPS))
            changes = [
                f"{step} {now}"
                for step, was, now in zip(STEPS, before, order.words, strict=True)
                if now not in (was, "")
            ]
            if changes:
                self.say(f"{order.number} {', '.join(changes)}")
            self._seen[order.number] = order.words
