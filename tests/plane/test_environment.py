"""What the environment of a run must have."""

import os


def test_continuous_integration_runs_on_both_databases():
    """A missing variable would silently halve the suite."""
    if os.environ.get("CI", "").lower() in ("1", "true"):
        assert os.environ.get("SOLARJAX_TEST_POSTGRES"), "run the tests under scripts/with_postgres"
