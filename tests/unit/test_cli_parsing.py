"""Words of the command line, and what happens when they are wrong."""

import json
import subprocess
import sys

import pytest

from solarjax.cli import errors
from solarjax.cli.errors import UserError
from solarjax.cli.parsing import numbers, pairs, seed_list, size_in_bytes, whole_numbers
from solarjax.core.trace import TraceError


def test_lists():
    assert whole_numbers("--capacities", " 10, 20 ", 1) == (10, 20)
    assert numbers("--lambda", "0.5,1", 0) == (0.5, 1.0)
    assert pairs("--set", ["mean = 100", "view=dated"]) == {"mean": "100", "view": "dated"}


def test_seeds_are_a_count_or_a_list():
    assert seed_list("3") == (0, 1, 2)
    assert seed_list("42,1337") == (42, 1337)
    assert seed_list("42,") == (42,)


@pytest.mark.parametrize(
    ("text", "size"),
    [("100", 100), ("2GB", 2 * 10**9), ("1.5GiB", 3 * 2**29), ("512mib", 2**29), ("3K", 3000)],
)
def test_sizes(text, size):
    assert size_in_bytes("--memory", text) == size


@pytest.mark.parametrize(
    ("parse", "message"),
    [
        (lambda: whole_numbers("--capacities", "10,x", 1), r"--capacities 'x' is not a whole number"),
        (lambda: whole_numbers("--capacities", "0", 1), r"--capacities 0 .* from 1"),
        (lambda: whole_numbers("--capacities", "-5", 1), r"--capacities -5 .* from 1"),
        (lambda: whole_numbers("--capacities", "10,,20", 1), r"--capacities '10,,20'"),
        (lambda: whole_numbers("--capacities", "10,10", 1), r"named twice"),
        (lambda: whole_numbers("--capacities", "1.5", 1), r"'1.5' is not a whole number"),
        (lambda: numbers("--lambda", "nan", 0), r"--lambda nan is out of range"),
        (lambda: numbers("--lambda", "inf", 0), r"--lambda inf is out of range"),
        (lambda: numbers("--lambda", "-1", 0), r"--lambda -1 .* from 0"),
        (lambda: seed_list("0"), r"--seeds 0 .* from 1"),
        (lambda: seed_list("1,-2"), r"--seeds -2"),
        (lambda: pairs("--set", ["mean"]), r"--set 'mean' is not NAME=VALUE"),
        (lambda: pairs("--set", ["a=1", "a=2"]), r"--set a is given twice \(1 and 2\)"),
        (lambda: size_in_bytes("--memory", "lots"), r"--memory 'lots'"),
        (lambda: size_in_bytes("--memory", "5TB"), r"--memory '5TB'"),
        (lambda: size_in_bytes("--memory", "0"), r"--memory 0"),
    ],
)
def test_wrong_values_are_named(parse, message):
    with pytest.raises(UserError, match=message):
        parse()


def raising(error):
    def body():
        raise error

    return body


@pytest.mark.parametrize("error", [UserError("a\nb"), TraceError("a\nb"), FileNotFoundError(2, "a b", "f")])
def test_user_errors_are_one_line_and_code_2(error, capsys):
    assert errors.run_guarded(raising(error)) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1
    assert shown.err.startswith("solarjax: error: ") and "a b" in shown.err and "Traceback" not in shown.err


def test_a_bare_value_error_is_a_bug_not_a_user_error(capsys):
    assert errors.run_guarded(raising(ValueError("shapes differ"))) == 1
    assert "Traceback" in capsys.readouterr().err


def test_interrupt(capsys):
    assert errors.run_guarded(raising(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "solarjax: interrupted\n"


def test_debug_shows_the_traceback(capsys, monkeypatch):
    monkeypatch.setenv(errors.DEBUG, "1")
    assert errors.run_guarded(raising(UserError("no"))) == 2
    assert "Traceback" in capsys.readouterr().err


def test_the_command_line_loads_without_the_heavy_libraries():
    heavy = ["jax", "numpy", "scipy", "xarray", "matplotlib", "flax", "jinja2", "transformers"]
    code = f"import sys, json, solarjax.cli.main; print(json.dumps([m for m in {heavy} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
