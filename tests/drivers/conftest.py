from django_durable_jobs.testing.conformance import clock

__all__ = ["clock"]
