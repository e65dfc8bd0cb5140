from django_durable_jobs.testing.conformance.fixtures import clock as clock
