"""The jobs pages as a person uses them, under ``default-src 'self'``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from django_durable_jobs.jobs import job as declare
from django_durable_jobs.jobs.registry import scratch_registry
from django_durable_jobs.models import Job
from django_durable_jobs.testing.factories import JobAttemptFactory, JobFactory, JobStepFactory

LIST = "/admin/durable_jobs/job/"
SECONDS = 10

SCHEMES = ["light", "dark"]


def complaints(browser: Chrome) -> list[str]:
    """What the console says, but for the icon that this site does not have."""
    entries = [entry["message"] for entry in browser.get_log("browser")]
    return [message for message in entries if "favicon.ico" not in message]


def wait_for(browser: Chrome, condition: Callable[[Chrome], object]) -> None:
    WebDriverWait(browser, SECONDS).until(condition)


@contextmanager
def colour_scheme(browser: Chrome, scheme: str) -> Iterator[None]:
    def emulate(features: list[dict[str, str]]) -> None:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    emulate([{"name": "prefers-color-scheme", "value": scheme}])
    try:
        yield
    finally:
        emulate([])


@pytest.fixture
def dead():
    job = JobFactory.create(dead=True, name="shop.charge")
    JobStepFactory.create(job=job, seq=1, name="reserve")
    JobStepFactory.create(job=job, seq=2, name="charge", output={"big": 2**53 + 1})
    JobAttemptFactory.create(job=job)
    return job


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_page_draws_under_the_strictest_policy_with_an_empty_console(
    browser, site, dead, scheme
):
    pages = [LIST, f"{LIST}{dead.pk}/change/", f"{LIST}{dead.pk}/op/requeue/"]
    with colour_scheme(browser, scheme):
        for page in pages:
            browser.get(site + page)
            browser.find_element(By.ID, "content-main")
            assert complaints(browser) == []
            # The stylesheet is in force: a badge has a border of its own.
            badge = browser.find_element(By.CLASS_NAME, "ddj-badge")
            assert badge.value_of_css_property("border-top-style") == "solid"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_stands_out_from_its_ground(browser, site, scheme):
    for state in Job.State.values:
        JobFactory.create(state=state, last_error="boom")
    with colour_scheme(browser, scheme):
        browser.get(site + LIST)
        ratios = browser.execute_script(CONTRAST, ".ddj-badge, .ddj-tabs span, .ddj-error, .ddj-id")

    assert len(ratios) > 20
    assert min(ratios) >= 4.5


# WCAG's contrast ratio of each element's text to the nearest painted ground.
CONTRAST = """
const rgba = (text) => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => {
  const linear = (c) => c <= 10 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4;
  const [x, y, z] = [r, g, b].map(linear);
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const ground = (el) => {
  for (; el; el = el.parentElement) {
    const colour = rgba(getComputedStyle(el).backgroundColor);
    if (colour.length < 4 || colour[3] > 0) return colour;
  }
  return [255, 255, 255];
};
return [...document.querySelectorAll(arguments[0])].map((el) => {
  const [a, b] = [light(rgba(getComputedStyle(el).color)), light(ground(el))];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
});
"""


def test_a_dead_job_is_retried_by_clicking_through(browser, site, dead):
    browser.get(site + LIST)
    browser.find_element(By.LINK_TEXT, "shop.charge").click()
    browser.find_element(By.LINK_TEXT, "Retry").click()
    browser.find_element(By.NAME, "reason").send_keys("gateway is back")
    browser.find_element(By.CSS_SELECTOR, ".ddj-form button").click()

    wait_for(browser, lambda b: "Retried: shop.charge." in b.page_source)
    assert browser.current_url == f"{site}{LIST}{dead.pk}/change/"
    assert complaints(browser) == []
    dead.refresh_from_db()
    assert dead.state == "ready"


def test_a_running_job_is_cancelled_with_the_keyboard_alone(browser, site):
    job = JobFactory.create(running=True)
    browser.get(f"{site}{LIST}{job.pk}/change/")
    browser.find_element(By.LINK_TEXT, "Cancel").send_keys(Keys.ENTER)
    reason = browser.find_element(By.NAME, "reason")
    reason.send_keys("withdrawn", Keys.TAB)
    button = browser.switch_to.active_element
    assert button.text == "Cancel the job"
    button.send_keys(Keys.ENTER)

    wait_for(browser, lambda b: "ann: withdrawn" in b.page_source)
    job.refresh_from_db()
    assert job.state == "cancelled"
    assert complaints(browser) == []


def test_the_selected_jobs_are_retried_after_a_confirmation(browser, site):
    jobs = JobFactory.create_batch(3, dead=True)
    JobFactory.create(running=True)
    browser.get(site + LIST)
    browser.find_element(By.ID, "action-toggle").click()
    assert browser.find_element(By.CLASS_NAME, "action-counter").text == "4 of 4 selected"
    Select(browser.find_element(By.NAME, "action")).select_by_visible_text("Retry")
    browser.find_element(By.NAME, "index").click()

    button = browser.find_element(By.CSS_SELECTOR, ".ddj-form button")
    assert button.text == "Retry · 3"
    button.click()

    wait_for(browser, lambda b: "Retried: 3 jobs. Skipped 1" in b.page_source)
    assert complaints(browser) == []
    assert {Job.objects.get(pk=job.pk).state for job in jobs} == {"ready"}


def test_the_name_filter_completes_what_is_typed_when_there_are_many(browser, site):
    wanted = JobFactory.create(name="shop.job_17")
    JobFactory.create(name="shop.job_3")
    with scratch_registry():
        for n in range(30):
            declare(name=f"shop.job_{n}")(lambda: None)
        browser.get(site + LIST)
        field = browser.find_element(By.ID, "ddj-filter-name")
        field.send_keys("shop.job_17", Keys.ENTER)

        wait_for(browser, lambda b: "name=shop.job_17" in b.current_url)
        links = browser.find_elements(By.CLASS_NAME, "ddj-name")
        assert [link.text for link in links] == [wanted.name]
        assert complaints(browser) == []


def test_markup_in_a_row_runs_nothing(browser, site):
    markup = "<img src=x onerror=alert(1)><script>alert(1)</script>"
    job = JobFactory.create(
        dead=True, name=markup, last_error=markup, input={markup: markup}, input_preview=markup
    )
    JobStepFactory.create(job=job, name=markup, output=markup)
    for page in (LIST, f"{LIST}{job.pk}/change/"):
        # An open dialog would make this raise.
        browser.get(site + page)
        assert browser.find_elements(By.CSS_SELECTOR, "img[src=x]") == []
        assert markup in browser.find_element(By.ID, "content-main").text
        assert complaints(browser) == []


def test_no_page_is_wider_than_a_phone_but_its_tables(browser, site, dead):
    size = browser.get_window_size()
    browser.set_window_size(400, 900)
    try:
        for page in (f"{LIST}{dead.pk}/change/", f"{LIST}{dead.pk}/op/requeue/"):
            browser.get(site + page)
            wide = browser.execute_script(
                "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert wide <= 0
    finally:
        browser.set_window_size(size["width"], size["height"])
