"""What is promised in words: every registry entry, command and public function says what it is."""

import ast
import re
from pathlib import Path

import pytest

from solarjax.cli.main import app
from solarjax.policies.registry import POLICIES
from solarjax.traces.protocols import PROTOCOLS
from solarjax.workloads.registry import WORKLOADS

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / "solarjax").rglob("*.py"))
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("spec", [*POLICIES.items(), *WORKLOADS.items()], ids=lambda item: item[0])
def test_registry_entries_say_what_they_are(spec):
    name, entry = spec
    assert entry.paper.strip() and 10 <= len(entry.summary) <= 120, name
    for param, about in entry.params.items():
        assert about.doc.strip(), f"{name}: {param}"


def test_readme_names_every_policy_and_workload():
    missing = [name for name in [*POLICIES, *WORKLOADS, *PROTOCOLS] if f"`{name}`" not in README]
    assert not missing


def commands():
    for command in app.registered_commands:
        yield command.name, command.callback
    for group in app.registered_groups:
        for command in group.typer_instance.registered_commands:
            yield f"{group.name} {command.name}", command.callback


def test_every_command_has_help_and_stands_in_the_readme():
    names = [name for name, _ in commands()]
    of_plane = ("serve", "token", "backup", "restore", "capsule", "correct", "audit", "nodes")
    plane = {f"plane {name}" for name in of_plane}
    known = {"run", "replay", "policies", "workloads", "data", "report", "bench", "trace import", "trace info"}
    vllm = {f"vllm {name}" for name in ("up", "status", "down")}
    assert sorted(names) == sorted(known | plane | vllm)
    for name, callback in commands():
        assert f"solarjax {name}" in README, name
        assert "Example" in callback.__doc__, name


def test_options_in_the_documents_exist():
    """A `--option` after `solarjax run` in README or CONTRIBUTING is one that the command has."""
    import inspect

    run = dict(commands())["run"]
    known = {"--help", "--version"}
    for parameter in inspect.signature(run).parameters.values():
        option = parameter.annotation if isinstance(parameter.annotation, str) else str(parameter.annotation)
        explicit = re.findall(r"'(--[a-z-]+)'|\"(--[a-z-]+)\"", option)
        known |= {next(filter(None, pair)) for pair in explicit} or {f"--{parameter.name.replace('_', '-')}"}
    texts = README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    used = {o for line in re.findall(r"solarjax run[^\n`]*", texts) for o in re.findall(r"(?<!\S)--[a-z-]+", line)}
    assert used and used <= known, used - known


def public(tree):
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node.name, node
            if isinstance(node, ast.ClassDef):
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                        yield f"{node.name}.{inner.name}", inner


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_public_names_have_docstrings(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "the module has no docstring"
    # The body of a Protocol's method is its signature; a policy's inner functions are private by nesting.
    missing = [n for n, node in public(tree) if not ast.get_docstring(node) and not _is_stub(node)]
    assert not missing


def _is_stub(node):
    body = node.body[0]
    return len(node.body) == 1 and isinstance(body, ast.Expr) and ast.unparse(body) == "..."


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_stay_readable(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_to_files_work(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target
