"""Who may import whom, read from the source without importing it."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "solarjax"

# Layer -> what its modules may import at all, anywhere in a file. Third-party names, then parts of solarjax.
# `solarjax.core.trace` alone means that one module and not the rest of core, which would bring jax.
ALLOWED = {
    "core": ({"jax", "numpy", "scipy"}, {"core"}),
    "policies": ({"jax", "numpy"}, {"core", "policies"}),
    "workloads": ({"jax", "numpy", "scipy"}, {"core", "traces", "workloads"}),
    "traces": ({"numpy"}, {"core.trace", "traces"}),
    "encoders": (
        {"jax", "numpy", "flax", "safetensors", "tokenizers", "transformers", "huggingface_hub"},
        {"encoders"},
    ),
    "analysis": ({"numpy", "scipy", "xarray"}, {"core", "analysis"}),
    "report": ({"numpy", "xarray", "matplotlib", "jinja2"}, {"core", "analysis", "report", "scale.zarr_store"}),
    "scale": (
        {"jax", "numpy", "xarray", "zarr", "ray"},
        {"scale", "core", "policies", "workloads", "provenance", ""},
    ),
    "bench": (
        {"jax", "numpy", "scipy", "numba", "matplotlib"},
        {"bench", "core", "policies", "workloads", "report.figures", "provenance", ""},
    ),
    # The encoder is reached through importlib, so that a plane without one never meets jax.
    "plane": (
        {
            "numpy",
            "pydantic",
            "sqlalchemy",
            "fastapi",
            "starlette",
            "uvicorn",
            "httpx2",
            "aiohttp",
            "prometheus_client",
            "zmq",
            "msgspec",
            "cbor2",
            "tokenizers",
            "jinja2",
        },  # fmt: skip
        {"plane", ""},
    ),
    "replay": (
        {"jax", "numpy", "scipy", "xarray", "httpx2", "jinja2", "transformers", "snowballstemmer"},
        {"replay", "core", "policies", "traces", "report.stored", "provenance", ""},
    ),
    "cli": (
        {"typer", "rich", "jax", "numpy", "xarray"},
        {
            "cli",
            "plane",
            "replay",
            "core",
            "policies",
            "workloads",
            "traces",
            "encoders",
            "analysis",
            "report",
            "scale",
            "bench",
            "provenance",
            "",
        },
    ),
    "provenance": ({"jax"}, {""}),
    "": (set(), set()),
}
# Labelled results are made in these core modules only; the step itself knows nothing of xarray.
XARRAY_IN_CORE = {"core.dataset", "core.sweep"}


def module_name(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree, module, package=False):
    """(name, line) of every absolute module that the source imports, relative ones resolved."""
    here = module.split(".") if module else []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                base = here[: len(here) - node.level + (1 if package else 0)]
                prefix = ".".join(["solarjax", *base, *([node.module] if node.module else [])])
            else:
                prefix = node.module or ""
            # `from solarjax.core import sweep` names a module, `from numpy import array` a value.
            if prefix.split(".")[0] == "solarjax":
                yield from ((f"{prefix}.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield prefix, node.lineno


def violations(module, source, package=False):
    """Sentences about imports that `module` must not have."""
    layer = module.split(".")[0]
    outside, inside = ALLOWED[layer]
    for name, line in imports(ast.parse(source), module, package):
        top, *rest = name.split(".")
        if top in sys.stdlib_module_names:
            continue
        if top != "solarjax":
            if top == "xarray" and module in XARRAY_IN_CORE:
                continue
            if top not in outside:
                yield f"{module}:{line} imports {name}"
            continue
        target = ".".join(rest)
        if target == "__version__":
            continue
        fits = any(
            (not part and (not rest or rest[0] not in ALLOWED))
            or (part and (target == part or target.startswith(part + ".")))
            for part in inside
        )
        if not fits:
            yield f"{module}:{line} imports {name}"


FILES = sorted(PACKAGE.rglob("*.py"))


def test_every_part_has_a_rule():
    assert {module_name(path).split(".")[0] for path in FILES} <= set(ALLOWED)
    assert len(FILES) > 40


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_imports_stay_in_their_layer(path):
    found = list(violations(module_name(path), path.read_text(), path.name == "__init__.py"))
    assert not found, "; ".join(found)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("core.x", "import xarray"),
        ("core.x", "from solarjax.policies.registry import POLICIES"),
        ("core.x", "from solarjax import policies"),
        ("core.x", "def f():\n    from ..workloads import cycling"),
        ("policies.x", "import scipy.stats"),
        ("workloads.x", "from solarjax.policies import registry"),
        ("traces.x", "import jax"),
        ("traces.x", "from solarjax.core.sweep import sweep"),
        ("traces.x", "from solarjax.core import sweep"),
        ("encoders.x", "import torch"),
        ("analysis.x", "import pandas"),
        ("report.x", "from solarjax.workloads import cycling"),
        ("plane.x", "import jax"),
        ("plane.x", "from solarjax.encoders import minilm"),
        ("plane.x", "from solarjax.core.trace import Trace"),
        ("cli.x", "import tests.conftest"),
        ("cli.x", "import theory"),
        ("cli.x", "from experiments import registry"),
        ("", "import jax"),
    ],
)
def test_the_rule_sees_a_wrong_import(module, source):
    assert list(violations(module, source))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("core.sweep", "import xarray as xr\nimport jax.numpy as jnp\nfrom solarjax.core import store"),
        ("traces.x", "from solarjax.core.trace import Trace\nfrom solarjax.core import trace"),
        ("cli.x", "import solarjax\nfrom solarjax import provenance"),
        ("policies.x", "from . import slots"),
    ],
)
def test_the_rule_lets_a_right_import_pass(module, source):
    assert not list(violations(module, source))


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("solarjax", ["jax", "numpy"]),
        ("solarjax.cli.main", ["jax", "numpy", "xarray", "matplotlib", "rich.progress"]),
        ("solarjax.core.trace", ["jax", "scipy", "xarray"]),
        ("solarjax.traces.datasets", ["jax", "scipy", "xarray", "flax"]),
        ("solarjax.plane", ["jax", "numpy", "sqlalchemy", "fastapi"]),
        ("solarjax.plane.catalogue", ["jax", "flax", "fastapi", "httpx2"]),
        ("solarjax.plane.server, solarjax.plane.api.app, solarjax.plane.client", ["jax", "flax", "scipy", "xarray"]),
        ("solarjax.report.render", ["jax", "matplotlib", "jinja2"]),
        ("solarjax.bench.sections, solarjax.bench.results, solarjax.bench.render", ["jax", "numpy", "numba"]),
    ],
)
def test_importing_is_cheap(module, absent):
    code = f"import sys, json, {module}; print(json.dumps([m for m in {absent} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
