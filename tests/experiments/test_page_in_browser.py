"""The page in headless Chromium: no error on the console, the ledger filter and the tables work.

A copy of the page gets two scripts, one that records errors before anything else runs and one that uses the page
and writes what it found into the document; `--dump-dom` prints that.
"""

from xml.etree import ElementTree

import pytest

from experiments.render import page
from tests.support import browser
from tests.support import stored_rows as stored

RECORDER = """<script>
window.problems = [];
addEventListener("error", e => problems.push(String(e.message || e.target.outerHTML)), true);
addEventListener("unhandledrejection", e => problems.push(String(e.reason)));
for (const level of ["error", "warn"]) console[level] = (...words) => problems.push(words.join(" "));
</script>"""

USER = """<script>
addEventListener("load", async () => {
  const found = {};
  await window.ready;
  const lines = () => [...document.querySelectorAll("#claims tbody tr")];
  const visible = () => lines().filter(r => r.offsetParent !== null).map(r => r.id);
  const form = document.getElementById("filters");
  const change = () => form.dispatchEvent(new Event("input", { bubbles: true }));
  try {
    found.all = visible();
    form.querySelector("input[value='not run']").click();
    found.run = visible();
    form.elements.text.value = "lru"; change();
    found.lru = visible();
    found.count = document.getElementById("shown").textContent;
    form.elements.text.value = ""; form.querySelector("input[value='not run']").click();
    form.elements.paper.value = "P"; change();
    found.placemem = visible();
    form.elements.paper.value = ""; change();
    found.again = visible();
    const table = document.querySelector("#cycling-cycling-hit-rate table");
    const order = () => [...table.tBodies[0].rows].map(r => r.cells[0].textContent.trim());
    const column = () => [...table.tBodies[0].rows].map(r => Number(r.cells[1].dataset.v));
    found.before = order();
    table.tHead.rows[0].cells[1].querySelector("button").click();
    found.sorted = column();
    table.querySelector("button.number").click();
    const box = document.getElementById("row");
    found.dialog = { open: box.open, text: box.textContent };
    box.close();
    document.querySelector("#S01 [data-of]").click();
    found.source = box.textContent;
    box.close();
    const folded = () => document.querySelectorAll("#ledger details:not([open])").length;
    found.folded = [folded()];
    dispatchEvent(new Event("beforeprint"));
    found.folded.push(folded());
    found.more = document.querySelectorAll("details.more figure.table").length;
    const later = document.querySelector("details.more table[data-field=diff]");
    later.tHead.rows[0].cells[1].querySelector("button").click();
    const words = [...later.tBodies[0].rows].map(r => r.cells[1].textContent).filter(text => text);
    found.later = words.map(text => parseFloat(text.replace("−", "-")));
    const cells = [...document.querySelectorAll("[data-artefact] [data-r]")];
    found.numbers = [cells.length, cells.filter(cell => cell.querySelector("button.number")).length];
    const places = [...document.querySelectorAll("[data-part]")];
    found.empty = places.filter(place => !place.querySelector("svg, table")).length;
    found.note = document.getElementById("packed-note").offsetParent !== null;
    document.querySelectorAll("details").forEach(part => part.open = true);
    let saved = [];
    URL.createObjectURL = blob => { saved.push(blob); return "data:,"; };
    HTMLAnchorElement.prototype.click = function () { found.name = this.download; };
    document.querySelector("#cycling-cycling-hit-rate [data-csv]").click();
    document.querySelector("[data-svg]").click();
    document.querySelector("[data-svg] + [data-csv]").click();
    found.width = [document.documentElement.scrollWidth, innerWidth];
    found.blobs = saved.map(b => [b.type, b.size]);
    Promise.all([0, 1, 2].map(at => saved[at].text())).then(texts => { found.texts = texts; finish(); });
  } catch (problem) { problems.push(String(problem.stack || problem)); finish(); }
  function finish() {
    found.problems = problems;
    const box = document.createElement("pre");
    box.id = "found";
    box.textContent = JSON.stringify(found);
    document.body.append(box);
  }
});
</script>"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    out = stored.write(tmp_path_factory.mktemp("browser"))
    page.render(out)
    return out


@pytest.fixture(scope="module")
def found(report):
    return tried(report, RECORDER, USER)


def tried(report, first, last):
    """What `last` finds on the page when `first` ran before everything else."""
    text = (report / "index.html").read_text(encoding="utf-8")
    changed = text.replace("<head>", f"<head>{first}", 1).replace("</body>", f"{last}</body>", 1)
    assert changed.count(first) == changed.count(last) == 1
    (report / "tried.html").write_text(changed, encoding="utf-8")
    page_of_the_test = (report / "tried.html").as_uri()
    return browser.found(report / "profile", page_of_the_test, "--virtual-time-budget=10000", "--window-size=1200,900")


def test_no_error_on_the_console(found):
    assert found["problems"] == []


def test_the_ledger_filter_works(found):
    assert len(found["all"]) == 37 and found["again"] == found["all"]
    assert "S01" in found["run"] and "S10" not in found["run"] and 0 < len(found["run"]) < 37
    assert "S02" in found["lru"] and "S01" not in found["lru"] and found["count"].startswith(str(len(found["lru"])))
    assert found["placemem"] == [f"P{i:02d}" for i in range(1, 8)]


def test_tables_sort_and_numbers_lead_to_their_row(found):
    assert found["sorted"] == sorted(found["sorted"], reverse=True) and len(set(found["sorted"])) > 2
    assert found["dialog"]["open"] and "solarjax run --workload cycling" in found["dialog"]["text"]
    assert "cycling:cycling/" in found["dialog"]["text"]


def test_the_ledger_leads_to_the_rows_it_rests_on(found):
    assert "cycling:cycling//1/fifo/hit_rate" in found["source"] and "solarjax run" in found["source"]


def test_print_opens_the_reasons(found):
    before, during = found["folded"]
    assert before > 37 and during == 0


def test_nothing_is_wider_than_the_window_with_everything_open(found):
    content, window = found["width"]
    assert found["more"] > 5 and content <= window


def test_what_is_packed_comes_out_whole(found):
    cells, numbers = found["numbers"]
    assert cells == numbers > 200 and found["empty"] == 0 and not found["note"]
    assert found["later"] == sorted(found["later"], reverse=True) and len(set(found["later"])) > 2


def test_data_can_be_downloaded(found):
    assert [kind for kind, _ in found["blobs"]] == ["text/csv", "image/svg+xml", "text/csv"]
    for text in (found["texts"][0], found["texts"][2]):
        lines = text.strip().splitlines()
        assert lines[0].startswith("table,policy,measure,mean") and len(lines) > 10
    drawing = ElementTree.fromstring(found["texts"][1])
    assert drawing.tag.endswith("svg") and len(list(drawing.iter())) > 50


def test_a_browser_that_cannot_unpack_says_so_and_has_the_ledger(report):
    last = """<script>addEventListener("load", () => ready.catch(() => {
      document.querySelector("#filters input[value='not run']").click();
      const box = document.createElement("pre");
      box.id = "found";
      const lines = [...document.querySelectorAll("#claims tbody tr")];
      const note = !document.getElementById("packed-note").hidden;
      const texts = [...document.querySelectorAll("[data-artefact] [data-r]")].map(cell => cell.textContent);
      box.textContent = JSON.stringify({ note, texts, lines: lines.filter(line => !line.hidden).length });
      document.body.append(box);
    }));</script>"""
    held = tried(report, "<script>delete window.DecompressionStream;</script>", last)
    assert held["note"] and 0 < held["lines"] < 37 and len(held["texts"]) > 50 and all(held["texts"])


@pytest.mark.parametrize(("name", "width", "dark"), [("desk", 1200, False), ("phone", 390, True)])
def test_a_screenshot_is_kept(report, name, width, dark):
    from pathlib import Path

    kept = Path(__file__).resolve().parents[2] / ".cache" / "screenshots"
    kept.mkdir(parents=True, exist_ok=True)
    target = kept / f"paper-{name}.png"
    target.unlink(missing_ok=True)
    browser.chromium(
        f"--user-data-dir={report / 'profile'}", f"--window-size={width},1600", f"--screenshot={target}",
        "--virtual-time-budget=10000",
        *(["--blink-settings=preferredColorScheme=0"] if dark else []), (report / "index.html").as_uri(),
    )  # fmt: skip
    data = target.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) > 10_000
    assert int.from_bytes(data[16:20], "big") == width
