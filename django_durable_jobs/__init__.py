"""Durable background jobs for Django on the project's own PostgreSQL."""
