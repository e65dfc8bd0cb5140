"""Settings of the worker processes that the acceptance tests start: the shop's, and a job more."""

from example_project.settings import *  # noqa: F403 -- a settings module extends another this way
from example_project.settings import INSTALLED_APPS as SHOP_APPS

INSTALLED_APPS = [*SHOP_APPS, "tests.acceptance.app"]
