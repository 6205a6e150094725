"""The report shows what is stored, nothing else, in every format, and needs no network."""

import csv
import io
import json
import re

import pandas as pd
import pytest

from experiments import published, store
from experiments.render import embed, page
from experiments.render.latex import document, escape, latex
from experiments.render.tables import Cell, Table
from experiments.types import ExperimentError
from tests.support import stored_rows as stored


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    stored.write(folder, {"cycling": published.CYCLING, "working_set": published.WORKING_SET})
    missing = stored.record("friendsqa", status="missing", reason="no friendsqa here; get it", entries={})
    store.save_artefact(folder, "friendsqa", [], missing)
    page.render(folder)
    return folder


@pytest.fixture(scope="module")
def html(out):
    return (out / "index.html").read_text(encoding="utf-8")


def test_the_page_needs_no_network(html):
    assert not re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', html)
    assert "@import" not in html and not re.search(r"url\((?!#|data:|&)", html.replace("url(#", ""))


def test_every_number_on_the_page_names_a_stored_row(out, html):
    data = packed(html)
    shown = re.findall(
        r'<table data-artefact="(\w+)" data-field="(\w+)">(.*?)</table>',
        html + "".join(data["parts"].values()),
        re.DOTALL,
    )
    count = 0
    for artefact, field, body in shown:
        held = data["artefacts"][artefact]
        stored_rows = {r.key: r for r in store.load_artefact(out, artefact).rows}
        for at, text in re.findall(r'data-r="(\d+)">([^<]*)<', body):
            row = stored_rows[held["keys"][int(at)]]
            value = held["fields"][field][int(at)]
            assert value == embed.short(getattr(row, field)) and held["commands"][row.entry]
            number = re.match(r"[+−]?[\d.]+", text)
            assert number is None or abs(float(number[0].replace("−", "-")) - value) < 0.006, (row.key, text)
            count += 1
    assert count > 200
    assert {field for _, field, _ in shown} == {"mean", "diff"}


def packed(html):
    return embed.unpack(re.search(r'id="packed">(.*?)</script>', html, re.DOTALL).group(1))


def test_the_rows_of_the_page_are_the_stored_ones_with_six_digits(out, html):
    rows = {r.key: r for r in store.load_artefact(out, "cycling").rows}
    held = packed(html)["artefacts"]["cycling"]
    for at, key in enumerate(held["keys"]):
        for name, values in held["fields"].items():
            wanted = getattr(rows[key], name)
            close = isinstance(wanted, float) and values[at] == pytest.approx(wanted, rel=5e-6)
            assert close or values[at] == (wanted if wanted != "" else None), (key, name)


def test_every_claim_leads_to_a_row_that_is_there(out, html):
    data = packed(html)
    named = re.findall(r'data-of="(\w+)" data-r="(\d+)">([^<]*)<', html)
    assert len(named) > 100
    for artefact, at, text in named:
        assert f"{artefact}:{data['artefacts'][artefact]['keys'][int(at)]}" == text


def test_an_edited_row_changes_the_page(out, tmp_path, html):
    import shutil

    copy = shutil.copytree(out, tmp_path / "copy")
    stored.edit(copy, "cycling", lambda r: r.policy == "fifo" and r.x == 5 and r.measure == "hit_rate", mean=0.98765)
    page.render(copy)
    text = (copy / "index.html").read_text(encoding="utf-8")
    assert "0.988" not in html and "0.988" in text
    claims = {c["id"]: c["label"] for c in json.loads((copy / "claims.json").read_text())}
    assert claims["S01"] == "holds under"


def test_published_figures_stand_beside_ours_with_a_verdict(out, html):
    for text in ("Ours beside the paper", "published figures", "not reproduced", "reproduced"):
        assert text in html
    rows = [r for r in store.load_artefact(out, "cycling").rows if r.published is not None]
    assert rows and all(r.agrees for r in rows)


def test_a_missing_experiment_says_why(html):
    assert "no friendsqa here; get it" in html


def test_markdown_has_the_ledger_and_every_section(out):
    text = (out / "report.md").read_text(encoding="utf-8")
    assert "| S01 |" in text and "| P07 |" in text and "## Cycling topics" in text
    for line in text.splitlines():
        if re.match(r"\| S\d\d \|", line):
            assert line.count("|") - line.count(r"\|") == 8, line
    for name in re.findall(r"\]\((figures/[^)]+)\)", text):
        assert (out / name).is_file()


def test_csv_and_parquet_hold_all_rows(out):
    frame = pd.read_parquet(out / "results.parquet")
    rows = list(csv.DictReader(io.StringIO((out / "results.csv").read_text(encoding="utf-8"))))
    total = sum(len(store.load_artefact(out, name).rows) for name in stored.WORLD)
    assert len(frame) == len(rows) == total
    assert [float(r["mean"]) for r in rows] == frame["mean"].tolist()
    assert frame["n"].dtype == "Int64" and frame["x"].dtype == "float64"


def test_the_ledger_is_there_as_csv_and_parquet(out):
    claims = json.loads((out / "claims.json").read_text())
    frame = pd.read_parquet(out / "claims.parquet")
    rows = list(csv.DictReader(io.StringIO((out / "claims.csv").read_text(encoding="utf-8"))))
    assert [r["id"] for r in rows] == frame["id"].tolist() == [c["id"] for c in claims]
    assert [r["label"] for r in rows] == [c["label"] for c in claims]
    held = {c["id"]: c for c in claims}["S02"]
    assert frame.set_index("id").loc["S02", ["figure", "low", "high"]].tolist() == [held["figure"], *held["interval"]]


def test_latex_is_whole(out):
    files = sorted((out / "tables").glob("*.tex"))
    whole = (out / "tables" / "all.tex").read_text(encoding="utf-8")
    assert {f"\\input{{{f.stem}}}\\clearpage" for f in files if f.stem != "all"} == set(re.findall(r"\\input.*", whole))
    assert whole.count(r"\begin{document}") == whole.count(r"\end{document}") == 1
    assert {"ledger.tex", "cycling.tex"} <= {f.name for f in files}
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert text.isascii()
        if file.stem == "all":
            continue
        for kind in ("table", "tabular", "longtable"):
            assert text.count(rf"\begin{{{kind}}}") == text.count(rf"\end{{{kind}}}")
        count = text.count(r"\begin{tabular}") + text.count(r"\begin{longtable}")
        assert count == text.count(r"\toprule") == text.count(r"\midrule") == text.count(r"\bottomrule") > 0
        tables = re.findall(r"\\begin\{(?:tabular|longtable)\}\{([^\n]+)\}\n(.*?)\\end\{(?:tab|long)", text, re.DOTALL)
        assert len(tables) == count
        for spec, body in tables:
            columns = len(re.findall(r"[lr]|p\{[^}]*\}", spec.replace("\\linewidth", "")))
            for line in body.splitlines():
                if line.endswith(r"\\") and not line.startswith(r"\caption"):
                    assert len(re.findall(r"(?<!\\)&", line)) == columns - 1, line
        assert not re.search(r"(?<!\\)[_#%](?!\s*Made)", text.split("\n", 1)[1].replace("tab:", ""))


def test_long_tables_run_over_pages_and_sentences_wrap():
    lines = [[Cell(f"p{i}"), Cell("1")] for i in range(60)]
    assert r"\begin{longtable}{lr}" in latex([Table("s", "T", ["a", "b"], lines)])
    text = latex([Table("s", "T", ["a", "why"], [[Cell("p"), Cell("because " * 20)]])])
    assert r"\begin{longtable}{lp{0.3\linewidth}}" in text and r"\endhead" in text
    assert r"\fittoline{\begin{tabular}{lr}" in latex([Table("s", "T", ["a", "b"], lines[:3])])
    assert r"\newcommand{\fittoline}" in document(["a"], "t")


def test_latex_escapes():
    assert escape(r"50 % of a_b & {c} ± \x") == r"50 \% of a\_b \& \{c\} $\pm$ \textbackslash{}x"
    table = Table("s", "T & T", ["a", "b_c"], [[Cell("x"), Cell("1", tone="best")]])
    assert r"x & \textbf{1} \\" in latex([table]) and r"a & b\_c \\" in latex([table])


def test_nothing_stored_is_a_user_error(tmp_path):
    with pytest.raises(ExperimentError, match="holds no results"):
        page.render(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_rendering_reads_only(out, monkeypatch):
    """No sweep, no measurement: rendering again without the runs folder, with the engine out of reach."""
    import sys

    assert not (out / store.RUNS).exists()
    monkeypatch.setitem(sys.modules, "solarjax.core.sweep", None)
    before = (out / "index.html").read_bytes()
    page.render(out)
    assert (out / "index.html").read_bytes() == before
