from django.apps import AppConfig


class OrdersConfig(AppConfig):
    name = "example_project.orders"
