"""The page of settings lists every setting with its true default."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from django_durable_jobs.conf import SETTINGS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "settings.md"


def test_the_page_lists_every_setting_and_its_default():
    rows = re.findall(r"^\| `([A-Z_]+)` \| `(.+?)` \| .+ \|$", PAGE.read_text(), re.M)

    listed = {key: ast.literal_eval(default) for key, default in rows}

    assert listed == {key: setting.default for key, setting in SETTINGS.items()}
