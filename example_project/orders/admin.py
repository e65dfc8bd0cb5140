from __future__ import annotations

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html

from .models import Order, OrderLine, Product


class OrderLineInline(admin.TabularInline):
    model = OrderLine
    extra = 0


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    list_display = ["number", "customer", "total", "status", "job"]
    list_filter = ["status"]
    search_fields = ["customer"]
    ordering = ["-id"]
    readonly_fields = ["number", "job"]
    inlines = [OrderLineInline]

    @admin.display(description="job")
    def job(self, order: Order) -> str:
        if order.job_id is None:
            return "–"
        page = reverse("admin:durable_jobs_job_change", args=[order.job_id])
        return format_html('<a href="{}">fulfilment</a>', page)


@admin.register(Product)
class ProductAdmin(admin.ModelAdmin):
    list_display = ["sku", "name", "price", "stock"]
