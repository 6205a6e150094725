"""The page in headless Chromium, against a real plane with scripted engines.

The browser opens a page of the test's own (same origin, so that it may look inside) that holds the real one in a frame,
uses it, and writes what it found into the document; `--dump-dom` prints that.
"""

import pytest
from starlette.responses import HTMLResponse
from starlette.routing import Route

from solarjax.plane.capsules import VersionRef
from solarjax.plane.commit import Intent
from solarjax.plane.web import pages
from tests.plane.front import MODEL, front
from tests.support import browser

DRIVER = """<!doctype html><iframe id="f" width="1200" height="900"></iframe><script>
const problems = [], found = {};
const until = async (what, done) => {
  for (let i = 0; i < 400; i++) { if (done()) return; await new Promise(r => setTimeout(r, 25)); }
  throw new Error("never: " + what);
};
(async () => {
  sessionStorage.clear();
  const frame = document.getElementById("f");
  frame.src = "/page/index.html";
  const inside = () => frame.contentDocument;
  await until("loaded", () => inside()?.readyState === "complete" && inside().getElementById("login"));
  const w = frame.contentWindow, d = frame.contentDocument;
  w.addEventListener("error", e => problems.push(String(e.message)));
  w.addEventListener("unhandledrejection", e => problems.push(String(e.reason)));
  d.addEventListener("securitypolicyviolation", e => problems.push(e.violatedDirective));
  const text = id => d.getElementById(id).textContent;
  const rows = id => [...d.getElementById(id).tBodies[0].rows].map(r => [...r.cells].map(c => c.textContent));
  const login = async token => {
    d.getElementById("token").value = token;
    d.getElementById("login").requestSubmit();
  };
  await login("sjp_wrong");
  await until("refused", () => d.getElementById("state").classList.contains("bad"));
  found.refused = [text("state"), d.getElementById("content").hidden];
  await login("TOKEN");
  await until("capsules", () => rows("capsules").length === 4);
  found.capsules = rows("capsules"); found.nodes = rows("nodes"); found.requests = rows("requests");
  found.summary = ["ttft", "reuse", "exact", "overlapped"].map(text);
  found.bars = d.querySelectorAll("#chart .bar").length;
  [...d.querySelectorAll("#capsules button")].find(b => b.textContent === "fact@2").click();
  await until("versions", () => rows("versions").length === 2 && text("cascade").includes("would end"));
  found.preview = [text("cascade"), [...d.querySelectorAll("#graph .node text")].map(t => t.textContent)];
  [...d.querySelectorAll("#versions button")].find(b => b.textContent === "fact@1").click();
  await until("cascade", () => text("cascade").includes("Ended by"));
  found.cascade = [text("cascade"), [...d.querySelectorAll("#graph .hit text")].map(t => t.textContent),
                   d.querySelectorAll("#graph .edge.hit").length];
  found.spared = [[...d.querySelectorAll("#graph .node:not(.hit) text")].map(t => t.textContent),
                  d.querySelectorAll("#graph .edge:not(.hit)").length];
  await w.show("wide");
  found.wide = [text("cascade"), d.querySelectorAll("#graph .node.hit").length];
  d.getElementById("words").value = "shipping";
  d.getElementById("words").dispatchEvent(new w.Event("input", { bubbles: true }));
  await until("search", () => rows("capsules").length === 1);
  found.searched = rows("capsules")[0][0];
  found.injected = d.querySelectorAll("td img, td script").length;
  const sent = await fetch("/v1/chat/completions", {
    method: "POST", body: JSON.stringify({ model: "MODEL", stream: true, messages: [{ role: "user", content: "?" }] }),
    headers: { Authorization: "Bearer TOKEN", "Content-Type": "application/json", "X-PlaceMem-Capsules": "fact" },
  });
  await sent.text();
  await until("a further request", () => rows("requests").length === 4);
  found.later = [...["ttft", "reuse"].map(text), d.querySelectorAll("#chart .bar").length];
  found.events = [...d.querySelectorAll("#events li")].map(li => li.textContent);
})().catch(e => problems.push(String(e.stack || e))).finally(() => {
  const box = document.createElement("pre");
  box.id = "found"; box.textContent = JSON.stringify({ ...found, problems });
  document.body.append(box);
});
</script>"""


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    with front(tmp_path_factory.mktemp("web")) as made:
        made.create("wide", "Many were made from it.")
        wide = (VersionRef(id="wide", version=1),)
        for i in range(204):
            made.create(f"narrow{i}", "One of many.", depends_on=wide)
        made.services.catalogue.delete(Intent("one", "tester"), "wide")
        made.create("fact", "The code is 17. " * 4)
        made.create("ship", "Shipping takes five days.")
        made.create("evil", "<img src=x onerror=alert(1)><script>alert(2)</script>")
        sources = (VersionRef(id="fact", version=1), VersionRef(id="ship", version=1))
        made.create("digest", "It is 17.", kind="summary", depends_on=sources)
        made.create("plan", "Use 17.", kind="plan", depends_on=(VersionRef(id="digest", version=1),))
        made.correct("fact@1", "The code is 18. " * 4)
        made.create("plan2", "Use 18.", kind="plan", depends_on=(VersionRef(id="fact", version=2),))
        for i in range(3):
            made.ask(f"question {i}", headers={"X-PlaceMem-Capsules": "fact"}, stream=True)
            made.caught_up()
        made.last()
        driver = DRIVER.replace("TOKEN", made.tokens["one"]).replace("MODEL", MODEL)
        # The page may not be framed; only here, and only by its own origin.
        headers = {**pages._HEADERS, "Content-Security-Policy": pages._HEADERS["Content-Security-Policy"].replace(
            "frame-ancestors 'none'", "frame-ancestors 'self'")}  # fmt: skip
        made.app.router.routes.append(Route("/drive", lambda _request: HTMLResponse(driver)))
        kept = pages._HEADERS.copy()
        pages._HEADERS.update(headers)
        yield made
        pages._HEADERS.update(kept)


@pytest.fixture(scope="module")
def found(plane, tmp_path_factory):
    profile = tmp_path_factory.mktemp("profile")
    return browser.found(profile, f"{plane.url}/drive", "--timeout=30000", "--virtual-time-budget=60000")


def test_nothing_goes_wrong_in_the_browser(found):
    assert found["problems"] == []


def test_a_wrong_token_opens_nothing(found):
    assert found["refused"] == ["a valid bearer token is needed", True]


def test_capsules_nodes_and_requests_are_shown(found, plane):
    cells = {row[0]: row for row in found["capsules"]}
    assert set(cells) == {"fact@2", "ship@1", "evil@1", "plan2@1"}
    holder = plane.last().node
    assert cells["fact@2"][3] == holder and cells["evil@1"][2].startswith("<img"), "text is shown, not run"
    assert found["injected"] == 0
    nodes = {row[0]: row for row in found["nodes"]}
    assert set(nodes) == {"a", "b"} and "fact@2" in nodes[holder][4] and nodes[holder][1] == "up"
    assert len(found["requests"]) == 3 and found["bars"] == 3
    ttft, reuse, exact, overlapped = found["summary"]
    assert ttft.endswith(" ms") and exact == "100.0 %" and overlapped == "0"
    # The page sent the latest one itself, later.
    assert reuse == reused(plane, 1) and float(reuse.split()[0]) > 30


def reused(plane, skipped):
    records = plane.serving.records.latest("one", 4)[skipped:]
    return f"{100 * sum(r.cached for r in records) / sum(r.prompt_tokens for r in records):.1f} %"


def test_the_page_follows_a_further_request(found, plane):
    ttft, reuse, bars = found["later"]
    times = sorted(r.ttft_ms for r in plane.serving.records.latest("one", 4))
    assert bars == 4 and (ttft, reuse) == (f"{times[2]:.1f} ms", reused(plane, 0)) and reuse != found["summary"][1]


def test_a_cascade_is_highlighted(found):
    assert found["preview"] == ["Correcting fact@2 would end 2 versions.", ["fact@2", "plan2@1"]]
    words, boxes, edges = found["cascade"]
    assert words.startswith("Ended by “correct” of fact") and "3 ended" in words
    assert boxes == ["fact@1", "digest@1", "plan@1"] and edges == 2


def test_what_a_change_spares_is_drawn_unmarked(found):
    """`ship` is a source of `digest`, which the correction of `fact` ends; `ship` itself holds."""
    assert found["spared"] == [["ship@1"], 1]


def test_a_graph_that_is_cut_says_so(found):
    words, marked = found["wide"]
    assert "Drawn are the first 200 of 205." in words and marked == 200


def test_search_and_changes(found):
    assert found["searched"] == "ship@1"
    assert any("correct fact" in event and "ended 3" in event for event in found["events"])


def test_the_page_is_served_with_strict_headers(plane):
    answer = plane.http.get("/", follow_redirects=True)
    assert answer.status_code == 200 and "script-src 'self'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert plane.http.get("/page/../settings.py").status_code == 404
    assert plane.http.get("/page/secret").status_code == 404
