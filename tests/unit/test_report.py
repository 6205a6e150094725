"""Reports: what is grouped, what is claimed, and that every shown number is the stored one."""

import csv
import html.parser
import json
import re

import numpy as np
import pytest

from solarjax.analysis.curves import capacity_curve
from solarjax.report import stored, tables
from solarjax.report.figures import draw, for_file, for_page, to_png, to_svg
from solarjax.report.render import report
from solarjax.report.sections import build
from solarjax.report.stored import StoredRun, StoreError
from solarjax.report.variants import fold_grid
from tests.unit.fake_results import fake_config, fake_provenance, fake_results

EIGHT = ("unlimited", "fifo", "lru", "solar", "oracle")


def a_run(path, data=None, command="solarjax run", **config):
    """A run; in memory only where `path` is None."""
    data = fake_results(EIGHT) if data is None else data
    name = config.pop("name", "cycling")
    params = config.pop("params", {})
    record = fake_provenance({**fake_config(data, name, **params), **config}, command)
    return StoredRun(path, data, record) if path is None else stored.save(path, data, record)


# --- storage ---


def test_a_run_survives_storage(tmp_path):
    data = fake_results(steps=8, categories=("a", "b"), grid={"lam": [1.0, 2.0]})
    a_run(tmp_path / "one", data)
    back = stored.load(tmp_path / "one")
    assert back.data.identical(data)
    assert back.config["source"]["name"] == "cycling"


def test_a_damaged_run_is_named(tmp_path):
    run = a_run(tmp_path / "one")
    whole = (run.path / stored.RESULT).read_bytes()
    (run.path / stored.RESULT).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StoreError, match="one holds no readable run"):
        stored.find(tmp_path)
    (run.path / stored.RESULT).write_bytes(whole)
    (run.path / stored.PROVENANCE).write_text('{"config": {}}')
    with pytest.raises(StoreError, match="no provenance record"):
        stored.find(tmp_path)
    (run.path / stored.PROVENANCE).write_text("{")
    with pytest.raises(StoreError, match="no readable run"):
        stored.find(tmp_path)


def test_a_result_without_provenance_is_no_run(tmp_path):
    run = a_run(tmp_path / "one")
    (run.path / stored.PROVENANCE).unlink()
    with pytest.raises(StoreError, match="holds no complete run"):
        stored.find(tmp_path)


def test_atomic_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "file.txt"
    stored.write_text(path, "old")

    def broken(temporary):
        temporary.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(StoreError, match="No space left"):
        stored.write_atomically(path, broken)
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["file.txt"]


# --- grouping ---


def test_runs_that_differ_in_one_number_share_a_section():
    runs = [a_run(None, fake_results(EIGHT, capacities=(10,), root=m), params={"n_topics": m}) for m in (20, 10, 15)]
    first, second = build([*runs[:2], a_run(None, name="working_set"), runs[2]])
    assert first.title == "cycling" and [p.label for p in first.points] == ["m/K=1", "m/K=1.5", "m/K=2"]
    assert [p.x for p in first.points] == [1.0, 1.5, 2.0]
    assert second.title == "working_set" and [p.label for p in second.points] == ["K=10", "K=20"]
    # Each point shows its own run.
    rows = {(r["policy"], r["point"]): r["mean"] for r in first.rows("hit_rate")}
    want = fake_results(EIGHT, capacities=(10,), root=15)["hit_rate"].sel(policy="lru").values.astype(float)
    assert rows["lru", 1] == pytest.approx(want.mean(), rel=1e-9)


@pytest.mark.parametrize(
    "change",
    [{"quality": "f1"}, {"feedback": "liked"}, {"k": 5}, {"params": {"n_topics": 30, "n_cycles": 7}}],
    ids=lambda change: next(iter(change)),
)
def test_runs_that_differ_otherwise_do_not(change):
    one = fake_results(EIGHT, capacities=(10,))
    other = a_run(None, one, **{"params": {"n_topics": 20}, **change})
    sections = build([a_run(None, one, params={"n_topics": 10}), other])
    assert len(sections) == 2
    titles = [section.title for section in sections]
    assert len(set(titles)) == 2 and all(title.startswith("cycling, ") for title in titles)


def test_equal_configurations_still_get_their_own_title():
    assert [s.title for s in build([a_run(None), a_run(None)])] == ["cycling (1)", "cycling (2)"]


def test_grid_points_become_rows_and_unmoved_policies_stay_one():
    folded = fold_grid(fake_results(("fifo", "solar"), grid={"lam": [1.0, 5.0], "ema": [0.1, 0.2]}))
    names = [str(n) for n in folded["policy"].values]
    assert names == ["fifo", *(f"solar · lam={a:g}, ema={b:g}" for a in (1, 5) for b in (0.1, 0.2))]
    data = fake_results(("fifo", "solar"), grid={"lam": [1.0, 5.0], "ema": [0.1, 0.2]})
    want = data["hit_rate"].sel(policy="solar", lam=5.0, ema=0.2, capacity=20).values
    np.testing.assert_array_equal(folded["hit_rate"].sel(policy=names[-1], capacity=20).values, want)
    assert folded["total_cost"].dims == ("trace", "policy", "capacity", "seed", "lambda")


# --- tables ---


def section_of(policies=EIGHT, **options):
    (section,) = build([a_run(None, fake_results(policies, **options))])
    return section


def test_matrix_shows_the_stored_means_and_marks_the_best_online():
    section = section_of()
    table = tables.matrix(section, "hit_rate")
    shown = {row[0].text: row[1] for row in table.rows}
    for curve in capacity_curve(section.data[0], "hit_rate"):
        if curve["capacity"] == 10:
            cell = next(c for name, c in shown.items() if name.startswith(curve["policy"]))
            assert cell.text == f"{curve['mean']:.3f} ± {curve['mean'] - curve['low']:.3f}"
            assert cell.value == curve["mean"]
    # solar is the best online policy; the oracle is above it and does not count.
    assert {name for name, cell in shown.items() if cell.tone == "best"} == {"solar"}
    assert "oracle (heuristic, offline)" in shown


def test_differences_are_tinted_only_where_the_interval_leaves_out_zero():
    section = section_of()
    table = tables.differences(section)
    tones = {row[0].text: row[1].tone for row in table.rows}
    assert tones["lru"] == "up" and tones["unlimited"] == "down" and "fifo" not in tones
    same = fake_results(("fifo", "lru"))
    same["hit_rate"][:, 1] = same["hit_rate"][:, 0]
    (section,) = build([a_run(None, same)])
    (row,) = tables.differences(section).rows
    assert row[1].text == "0.000 ± 0.000" and row[1].tone == ""


def test_no_baseline_no_differences():
    section = section_of(("lru", "solar"))
    assert tables.differences(section) is None and tables.headrooms(section) is None
    assert all(row[5].text == "–" for row in tables.overview([section]).rows)


def test_overview_picks_the_best_and_names_the_rest():
    row = tables.overview([section_of()]).rows[0]
    texts = [cell.text for cell in row]
    assert texts[:3] == ["cycling", "K=10", "solar"] and texts[5].startswith("+0.2") and row[5].tone == "up"


def test_categories_and_clusters():
    section = section_of(traces=("a", "b", "c"), categories=("one", "adversarial"))
    assert section.unit == "trace" and "interval over the 3 trace means" in section.replication
    table = tables.categories(section)
    assert table.head == ["policy", "at", "one", "adversarial"] and table.rows[0][2].hint == "n = 3"


@pytest.mark.parametrize(
    ("value", "units", "text"),
    [
        (0.30649, "1", "0.306"), (-0.0004, "1", "0.000"), (-0.0006, "1", "−0.001"), (None, "1", "–"),
        (1234.56, "items", "1234.6"), (20.5, "items", "20.5"),
    ],
)  # fmt: skip
def test_numbers_for_reading(value, units, text):
    assert tables.number(value, units) == text


def test_signed_numbers():
    assert tables.interval(0.05, 0.04, signed=True) == "+0.050 ± 0.010"
    assert tables.interval(-0.05, None, signed=True) == "−0.050"
    assert tables.number(0.0001, signed=True) == "0.000"


# --- figures ---


def test_a_figure_is_the_same_every_time_and_draws_the_means():
    section = section_of()
    figure = draw(section, "hit_rate")
    (axes,) = figure.axes
    lines = {c.get_label(): c.lines[0].get_ydata() for c in axes.containers}
    want = section.data[0]["hit_rate"].sel(policy="lru").mean(["trace", "seed"]).values
    np.testing.assert_allclose(lines["lru"], want, rtol=1e-6)
    assert "oracle (heuristic, offline)" in lines
    assert to_svg(figure, "x") == to_svg(draw(section, "hit_rate"), "x")
    assert to_png(figure).startswith(b"\x89PNG")


def test_inline_figures_follow_the_page():
    raw = to_svg(draw(section_of(), "hit_rate"), "one")
    assert 'fill="white"' in for_file(raw) and "#010203" in for_file(raw)
    text = for_page(raw)
    assert text.startswith("<svg") and "currentColor" in text and "#010203" not in text
    assert " width=" not in text.split(">")[0] and "viewBox" in text.split(">")[0]
    assert ">hit rate</text>" in text


# --- the whole report ---


class Page(html.parser.HTMLParser):
    """Checks nesting and collects ids, links and cell texts."""

    VOID = {"meta", "br", "hr", "img", "link", "input"}

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.loads, self.cells = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if tag == "a":
            self.links.append(attrs["href"])
        self.loads += [attrs[a] for a in ("src", "srcset") if a in attrs]
        self.loads += [attrs["href"] for _ in [0] if tag == "link"]

    def handle_startendtag(self, tag, attrs):
        if "id" in dict(attrs):
            self.ids.append(dict(attrs)["id"])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th", "button"):
            self.cells.append(data)


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    root = tmp_path_factory.mktemp("report")
    for m in (10, 20):
        data = fake_results(EIGHT, capacities=(10,), root=m)
        a_run(root / f"m{m}", data, f"solarjax run --set n_topics={m} <x>", params={"n_topics": m})
    many = fake_results(EIGHT, (10, 50), ("a", "b", "c"), categories=("one", "two"))
    source = {**fake_config(many)["source"], "kind": "locomo", "protocol": "P2", "params": {"mean": 100.0}}
    a_run(root / "locomo", many, source=source)
    written = report(root, remarks=["Encoder weights are missing."])
    return root, written


def test_the_page_is_self_contained_and_well_formed(rendered):
    root, written = rendered
    assert [path.relative_to(root).as_posix() for path in written] == [
        "index.html", "report.md", "results.csv", "figures/locomo-p2.svg", "figures/locomo-p2-difference.svg",
        "figures/cycling.svg", "figures/cycling-difference.svg",
    ]  # fmt: skip
    text = (root / "index.html").read_text()
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == [] and page.loads == []
    assert len(page.ids) == len(set(page.ids)), "two elements share an id"
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    outside = set(re.findall(r'https?://[^"\'\s<>)]+', text))
    assert all(url.startswith(("http://www.w3.org/",)) for url in outside), outside
    assert "Encoder weights are missing." in text and "{{" not in text and "{%" not in text


def test_the_page_says_what_ran(rendered):
    text = (rendered[0] / "index.html").read_text()
    for needed in (
        "heuristic, offline", "threshold=release", "<dt>quality (decides the miss cost)</dt><dd>hit</dd>",
        "<dt>feedback to the policy</dt><dd>retrieved</dd>", "solarjax run --set n_topics=10 &lt;x&gt;",
        "revision aaaaaaaaaaaa with uncommitted changes", "jax 0.10", "interval over the 3 trace means",
        "@media print", "prefers-color-scheme: dark", "8 seeds; interval over seeds",
    ):  # fmt: skip
        assert needed in text, needed


def test_all_three_forms_show_the_same_numbers(rendered):
    root = rendered[0]
    with open(root / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    page = Page()
    page.feed((root / "index.html").read_text())
    markdown = (root / "report.md").read_text()
    wanted = [r for r in rows if r["measure"] == "hit_rate"]
    assert len(wanted) == 2 * len(EIGHT) + 2 * len(EIGHT)
    for row in wanted:
        text = tables.interval(float(row["mean"]), float(row["low"]))
        assert text in page.cells and text in markdown
    raw = stored.load(root / "locomo").data["hit_rate"].sel(policy="lru", capacity=50).mean("seed")
    row = next(r for r in wanted if (r["policy"], r["at"], r["workload"]) == ("lru", "K=50", "LoCoMo P2"))
    assert float(row["mean"]) == pytest.approx(float(raw.astype(float).mean()), rel=1e-6)
    assert row["interval_over"] == "trace" and row["n"] == "3" and row["online"] == "True"


def test_markdown_tables_are_rectangular(rendered):
    lines = (rendered[0] / "report.md").read_text().splitlines()
    width = None
    for line in lines:
        if not line.startswith("|"):
            width = None
            continue
        columns = len(re.findall(r"(?<!\\)\|", line))
        assert width in (None, columns), line
        width = columns
    assert any(line.startswith("![") for line in lines)


def test_rendering_reads_and_never_runs(tmp_path, monkeypatch):
    """The same files give the same report, and the engine stays untouched."""
    monkeypatch.setattr("solarjax.core.sweep.sweep", lambda *a, **k: pytest.fail("the report ran a sweep"))
    a_run(tmp_path, fake_results(("fifo",)))
    report(tmp_path)
    before = (tmp_path / "index.html").read_bytes()
    report(tmp_path)
    assert (tmp_path / "index.html").read_bytes() == before


def test_one_seed_and_one_policy_still_render(tmp_path):
    a_run(tmp_path / "run", fake_results(("lru",), (10,), seeds=1))
    report(tmp_path)
    assert "±" not in (tmp_path / "report.md").read_text().split("## cycling")[1].split("## Policies")[0]


def test_stored_json_is_strict(tmp_path):
    run = a_run(tmp_path / "run")
    with pytest.raises(ValueError, match="not JSON compliant"):
        stored.save(tmp_path / "nan", run.data, {**run.provenance, "seconds": float("nan")})
    assert not (tmp_path / "nan" / stored.PROVENANCE).exists()
    assert isinstance(run, StoredRun) and json.loads((run.path / stored.PROVENANCE).read_text())
