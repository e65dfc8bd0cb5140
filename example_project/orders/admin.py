from __future__ import annotations

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from .approve import approve
from .models import Order, OrderLine, Product


class OrderLineInline(admin.TabularInline):
    model = OrderLine
    extra = 0


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    list_display = ["number", "customer", "total", "status", "approved_by", "job"]
    list_filter = ["status"]
    search_fields = ["customer"]
    ordering = ["-id"]
    readonly_fields = ["number", "approved_by", "job"]
    inlines = [OrderLineInline]
    actions = ["approve_selected"]

    @admin.action(description="Approve the selected orders", permissions=["change"])
    def approve_selected(self, request: HttpRequest, orders: QuerySet[Order]) -> None:
        approved = approve(orders, by=request.user.get_username())
        self.message_user(request, f"Orders approved: {approved}.", messages.SUCCESS)

    @admin.display(description="job")
    def job(self, order: Order) -> str:
        if order.job_id is None:
            return "–"
        page = reverse("admin:durable_jobs_job_change", args=[order.job_id])
        return format_html('<a href="{}">fulfilment</a>', page)


@admin.register(Product)
class ProductAdmin(admin.ModelAdmin):
    list_display = ["sku", "name", "price", "stock"]
