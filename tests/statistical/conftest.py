"""Laws need many draws, so these modules run longer than they compile."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def run_optimised(optimised: None) -> None:
    """Full optimisation for every module of this folder."""
