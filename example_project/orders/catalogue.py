"""What the shop sells."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from .models import Product

CATALOGUE: Final = {
    "TEA": ("Tea, 100 g", Decimal("8.50")),
    "POT": ("Teapot", Decimal("34.00")),
    "CUP": ("Cup", Decimal("9.90")),
    "TIN": ("Tin", Decimal("5.20")),
}
STOCK: Final = 10_000


def fill_shelves() -> None:
    """Make sure that every product of the catalogue exists."""
    for sku, (name, price) in CATALOGUE.items():
        Product.objects.get_or_create(
            sku=sku, defaults={"name": name, "price": price, "stock": STOCK}
        )
