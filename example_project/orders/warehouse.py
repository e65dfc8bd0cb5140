"""The warehouse, where people with scanners pick what was ordered."""

from __future__ import annotations

from django_durable_jobs import publish_event

from .models import Order


def announce_picked(by: str) -> int:
    """Publish ``order.picked`` for every order whose goods lie ready; return how many.

    An event reaches the waits that began before it. An order may be announced in the moment
    before its job waits, so it is announced again until it moves on; a wait takes one event
    and leaves the rest.
    """
    ready = Order.objects.filter(status=Order.Status.RESERVED)
    for order in ready:
        publish_event("order.picked", {"by": by}, key=order.number)
    return len(ready)
