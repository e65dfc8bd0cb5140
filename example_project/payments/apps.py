from django.apps import AppConfig


class PaymentsConfig(AppConfig):
    name = "example_project.payments"
