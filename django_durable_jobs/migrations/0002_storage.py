"""How the rows of the jobs lie on their pages; written by hand, since no model says it."""

from typing import Any

from django.db import migrations


class OnPostgreSQL(migrations.RunSQL):
    """Skipped elsewhere: a project's other databases, and its tests on the memory driver."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        if schema_editor.connection.vendor == "postgresql":
            super().database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        if schema_editor.connection.vendor == "postgresql":
            super().database_backwards(app_label, schema_editor, from_state, to_state)


class Migration(migrations.Migration):
    dependencies = [("durable_jobs", "0001_initial")]

    operations = [
        # Room on each page for the next version of a row, so that a lease renewal stays on its
        # page; and vacuum by count, since a queue's table is small but never at rest.
        OnPostgreSQL(
            sql="""
                ALTER TABLE x_jobs SET (
                    fillfactor = 80,
                    autovacuum_vacuum_scale_factor = 0.02,
                    autovacuum_vacuum_threshold = 1000,
                    autovacuum_analyze_scale_factor = 0.05
                )
            """,
            reverse_sql="""
                ALTER TABLE x_jobs RESET (
                    fillfactor,
                    autovacuum_vacuum_scale_factor,
                    autovacuum_vacuum_threshold,
                    autovacuum_analyze_scale_factor
                )
            """,
        ),
    ]
