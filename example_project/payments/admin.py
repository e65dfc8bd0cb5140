from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest

from .models import Charge, GatewayCall


class BooksAdmin(admin.ModelAdmin):
    """The gateway's books are read here, never written."""

    search_fields = ["key"]
    ordering = ["-id"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False


@admin.register(Charge)
class ChargeAdmin(BooksAdmin):
    list_display = ["key", "amount", "at"]


@admin.register(GatewayCall)
class GatewayCallAdmin(BooksAdmin):
    list_display = ["at", "key", "amount", "outcome", "pid"]
    list_filter = ["outcome"]
