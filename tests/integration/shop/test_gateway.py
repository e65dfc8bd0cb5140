"""The shop's fake gateway must be able to betray its caller, or the tests on it show nothing."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.db import transaction

from example_project.payments import gateway
from example_project.payments.models import Charge, GatewayCall

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def reliable(settings):
    settings.SHOP = {"GATEWAY_FAILS_EVERY": 10**9}


def outcomes() -> list[str]:
    return list(GatewayCall.objects.order_by("id").values_list("outcome", flat=True))


def test_a_key_is_charged_once_and_every_call_is_recorded(reliable):
    first = gateway.charge("order-1", Decimal("9.90"))
    second = gateway.charge("order-1", Decimal("9.90"))

    assert first == second
    assert Charge.objects.values_list("key", "amount").get() == ("order-1", Decimal("9.90"))
    assert outcomes() == ["charged", "repeated"]


def test_another_key_is_another_charge(reliable):
    assert gateway.charge("order-1", Decimal(1)) != gateway.charge("order-2", Decimal(1))
    assert Charge.objects.count() == 2


def test_what_happened_at_the_gateway_survives_the_callers_rollback(reliable):
    with transaction.atomic():
        gateway.charge("order-1", Decimal(1))
        transaction.set_rollback(True)

    assert outcomes() == ["charged"]
    assert Charge.objects.count() == 1


def test_calls_fail_now_and_then_with_and_without_the_money_taken(settings):
    settings.SHOP = {"GATEWAY_FAILS_EVERY": 3}
    failed = []
    for number in range(12):
        try:
            gateway.charge(f"order-{number}", Decimal(1))
        except gateway.GatewayUnavailable:
            failed.append(f"order-{number}")

    assert len(failed) == 4
    assert sorted(outcomes()) == ["answer lost"] * 2 + ["charged"] * 8 + ["unavailable"] * 2
    assert Charge.objects.filter(key__in=failed).count() == 2
