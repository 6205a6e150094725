"""What the environment of a run must have, and that continuous integration ends where it is missing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
IN_CI = os.environ.get("CI", "").lower() in ("1", "true")


def test_continuous_integration_runs_on_both_databases():
    """A missing variable would silently halve the suite."""
    if IN_CI:
        assert os.environ.get("SOLARJAX_TEST_POSTGRES"), "run the tests under scripts/with_postgres"


def test_continuous_integration_asks_a_real_vllm(request):
    """Its tests are deselected where it is not installed; in CI only on request."""
    if IN_CI and os.environ.get("SOLARJAX_WITHOUT_VLLM") != "1":
        (mine,) = (p for p in request.config.pluginmanager.get_plugins() if hasattr(p, "VLLM_INSTALLED"))
        assert mine.VLLM_INSTALLED, "scripts/setup_vllm installs it; SOLARJAX_WITHOUT_VLLM=1 leaves its tests out"


@pytest.mark.parametrize(("without", "installs", "tested"), [("", 0, True), ("", 1, False), ("1", 1, True)])
def test_the_run_ends_where_vllm_could_not_be_installed(tmp_path, without, installs, tested):
    """.ci/run itself, with scripts that only note that they ran."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    codes = {"check": 0, "bench": 0, "with_postgres": 0, "setup_vllm": installs, "apt-get": 0}
    for name, code in codes.items():
        script = tmp_path / "scripts" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(f'#!/bin/sh\necho "$@" > "{tmp_path}/{name}.ran"\nexit {code}\n')
        script.chmod(0o755)
    # Debian's packages are no matter here: the stand-in for apt-get is found first.
    env = {**os.environ, "PATH": f"{tmp_path / 'scripts'}:{os.environ['PATH']}", "SOLARJAX_WITHOUT_VLLM": without}
    done = subprocess.run([tmp_path / ".ci" / "run"], env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode == 0, (tmp_path / "with_postgres.ran").exists()) == (tested, tested), done.stderr
    assert ("could not be installed" in done.stderr) == bool(installs)
