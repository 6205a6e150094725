"""The reference of the authors' release."""

import json
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def reference(shared_golden: Path) -> dict:
    """Recorded results by case; `_about` describes them."""
    return json.loads((shared_golden / "solar_reference.json").read_text())
