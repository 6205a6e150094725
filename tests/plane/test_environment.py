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


@pytest.mark.parametrize(
    ("without", "failures", "tested"), [("", 0, True), ("", 1, True), ("", 2, False), ("1", 1, True), ("1", 2, True)]
)
def test_the_run_tries_to_install_vllm_twice_and_then_ends(tmp_path, without, failures, tested):
    """.ci/run itself, with scripts that only note that they ran; the first so many installations fail."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    for name in ("check", "bench", "with_postgres", "setup_vllm", "apt-get"):
        script = tmp_path / "scripts" / name
        script.parent.mkdir(exist_ok=True)
        ran = f"{tmp_path}/{name}.ran"
        code = f'[ "$(wc -l < "{ran}")" -gt {failures} ]' if name == "setup_vllm" else "true"
        script.write_text(f'#!/bin/sh\necho "ran: $@" >> "{ran}"\n{code}\n')
        script.chmod(0o755)
    # Debian's packages are no matter here: the stand-in for apt-get is found first.
    env = {**os.environ, "PATH": f"{tmp_path / 'scripts'}:{os.environ['PATH']}", "SOLARJAX_WITHOUT_VLLM": without}
    done = subprocess.run([tmp_path / ".ci" / "run"], env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode == 0, (tmp_path / "with_postgres.ran").exists()) == (tested, tested), done.stderr
    assert len((tmp_path / "setup_vllm.ran").read_text().splitlines()) == min(failures + 1, 2)
    assert ("a second try" in done.stderr, "could not be installed" in done.stderr) == (failures > 0, failures > 1)
