from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

LIST = "/admin/durable_jobs/job/"


@pytest.fixture
def staff(db):
    """Return a function that makes a logged-in client of a staff user with these permissions."""

    def make(*codenames: str) -> Client:
        user = User.objects.create_user("-".join(("ann", *codenames)), is_staff=True)
        for codename in codenames:
            user.user_permissions.add(
                Permission.objects.get(content_type__app_label="durable_jobs", codename=codename)
            )
        client = Client()
        client.force_login(user)
        return client

    return make


@pytest.fixture
def viewer(staff):
    return staff("view_job")


@pytest.fixture
def operator(staff):
    return staff("view_job", "view_job_payload", "retry_job", "cancel_job")


def page_of(job, *rest: str) -> str:
    return f"{LIST}{job.pk}/" + "".join(f"{part}/" for part in rest or ("change",))
