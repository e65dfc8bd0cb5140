from __future__ import annotations

import shutil

import pytest
from django.contrib.auth.models import User
from django.test import Client
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

ROOM = (1360, 1000)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    binary = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
    )
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--window-size={ROOM[0]},{ROOM[1]}",
        f"--user-data-dir={tmp_path_factory.mktemp('chromium')}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    driver.implicitly_wait(5)
    yield driver
    driver.quit()


@pytest.fixture
def site(live_server, settings):
    """The address of a live site under a strict content security policy."""
    settings.MIDDLEWARE = ["tests.browser.strict_policy.strict_policy", *settings.MIDDLEWARE]
    return live_server.url


@pytest.fixture
def browser(chromium, site):
    """Chromium, logged in to the admin as a superuser, with an empty console."""
    user = User.objects.create_superuser("ann")
    client = Client()
    client.force_login(user)
    chromium.get(f"{site}/static/admin/css/base.css")
    chromium.delete_all_cookies()
    chromium.add_cookie({"name": "sessionid", "value": client.cookies["sessionid"].value})
    chromium.get_log("browser")
    return chromium
