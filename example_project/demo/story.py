"""The demo from the first migration to the last order."""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Iterator

from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import Error, connections

from example_project.orders.approve import approve_paid_orders
from example_project.orders.catalogue import CATALOGUE, fill_shelves
from example_project.orders.models import Order
from example_project.orders.place import place_order

from .processes import DemoFailed, Process, shop
from .screen import Screen
from .summary import Summary, sum_up
from .watch import Progress, busy_workers, look

ORDERS = 20
WORKER_PROCESSES = 2
# A worker is killed when a third of the orders are done; the rest are still on their way then.
KILL_AFTER = ORDERS // 3
TICK_SECONDS = 0.1
SECONDS_BETWEEN_ORDERS = 0.6
SECONDS_BETWEEN_APPROVALS = 2.0
SECONDS_BETWEEN_LATER_ORDERS = 5.0
LONGEST_SECONDS = 180
CUSTOMERS = ("Ada", "Blaise", "Chien-Shiung", "Dorothy", "Emmy", "Grace", "Hedy", "Katherine")


def run(*, once: bool) -> int:
    """Tell the story; return the process's exit status.

    Args:
        once: End when the orders are settled, with a summary, and 0 only if it is as promised.

    Raises:
        DemoFailed: Something could not start, or ended on the way.
    """
    try:
        call_command("migrate", verbosity=0, interactive=False)
        fill_shelves()
        user, password = create_admin()
    except (Error, CommandError) as error:
        raise DemoFailed(f"The database could not be prepared: {str(error).strip()}") from error
    try:
        with shop(worker_processes=WORKER_PROCESSES) as (web, workers, address):
            title = (
                f"{ORDERS} orders on {WORKER_PROCESSES} worker processes.\n"
                f"Admin: {address}/admin/   user {user}, password {password}\n"
                f"Ctrl-C stops everything."
            )
            summary = Story(Screen(title), web, workers, once=once).tell()
    except Error as error:
        raise DemoFailed(f"The database went away: {error}") from error
    finally:
        connections.close_all()
    # The verdict is the last word, when all the rest is over.
    print(f"\n{summary}", flush=True)
    return 0 if summary.is_as_promised else 1


def create_admin() -> tuple[str, str]:
    """Make a superuser that nobody else has; return name and password."""
    name = "admin"
    if User.objects.filter(username=name).exists():
        name = f"admin-{secrets.token_hex(2)}"
    password = secrets.token_urlsafe(9)
    User.objects.create_superuser(name, password=password)
    return name, password


class Story:
    """What happens while the shop is open."""

    def __init__(self, screen: Screen, web: Process, workers: Process, *, once: bool) -> None:
        self.screen = screen
        self.web = web
        self.workers = workers
        self.once = once
        self.orders: list[Order] = []
        self.kills = 0
        self._is_told = False
        self._order_is_due = _every(SECONDS_BETWEEN_ORDERS)
        self._approval_is_due = _every(SECONDS_BETWEEN_APPROVALS)

    def tell(self) -> Summary:
        """Let orders come and go until the end, which without *once* is Ctrl-C's."""
        begun = time.monotonic()
        while True:
            self.web.check()
            self.workers.check()
            self._customers_and_approvers_act()
            progress = look(self.orders[-ORDERS:])
            self.screen.show(progress)
            if self.kills == 0 and sum(order.is_done for order in progress) >= KILL_AFTER:
                self._kill_a_busy_worker(progress)
            if len(self.orders) >= ORDERS and all(order.is_settled for order in progress):
                if self.once:
                    return self._sum_up()
                self._tell_the_end()
            if self.once and time.monotonic() - begun > LONGEST_SECONDS:
                self.screen.say(f"Gave up after {LONGEST_SECONDS} s.")
                return self._sum_up()
            time.sleep(TICK_SECONDS)

    def _customers_and_approvers_act(self) -> None:
        wanted = len(self.orders) < ORDERS or self._is_told
        if wanted and next(self._order_is_due):
            number = len(self.orders)
            self.orders.append(place_order(CUSTOMERS[number % len(CUSTOMERS)], _basket(number)))
        if next(self._approval_is_due):
            approve_paid_orders(by="Rosalind")

    def _kill_a_busy_worker(self, orders: list[Progress]) -> None:
        """SIGKILL the worker process that runs the most orders; try again later if none does."""
        busy = busy_workers(job_id for order in orders for job_id in order.job_ids)
        ours = [pid for pid in busy if self.workers.started(pid)]
        if not ours:
            return
        pid = max(ours, key=lambda pid: len(busy[pid]))
        os.kill(pid, signal.SIGKILL)
        self.kills += 1
        lost = ", ".join(
            order.number for order in orders if not busy[pid].isdisjoint(order.job_ids)
        )
        self.screen.say(f"Killed worker process {pid} with SIGKILL while it ran {lost}.")

    def _tell_the_end(self) -> None:
        if not self._is_told:
            self.screen.say(f"All of them: {self._sum_up().verdict}.")
            self.screen.say("The shop stays open until Ctrl-C; look around in the admin.")
            self._is_told = True
            self._order_is_due = _every(SECONDS_BETWEEN_LATER_ORDERS)

    def _sum_up(self) -> Summary:
        return sum_up(self.orders, wanted=ORDERS, kills=self.kills)


def _basket(number: int) -> dict[str, int]:
    skus = list(CATALOGUE)
    return {skus[number % len(skus)]: 1 + number % 3, skus[(number + 1) % len(skus)]: 1}


def _every(seconds: float) -> Iterator[bool]:
    """Answer True at once, and then once in *seconds*."""
    due = time.monotonic()
    while True:
        is_due = time.monotonic() >= due
        if is_due:
            due = time.monotonic() + seconds
        yield is_due
