// The page of the memory plane. All text of capsules is put in as text, never as markup.
"use strict";

const API = "/plane/v1";
const POLL_MS = 2000;
const at = id => document.getElementById(id);
let token = sessionStorage.getItem("plane-token") ?? "";
let nodes = [];
let next = null;
let chosen = null;
let running = null;

async function ask(path, options = {}) {
  const headers = { Authorization: `Bearer ${token}`, ...(options.body ? { "Content-Type": "application/json" } : {}) };
  const answer = await fetch(API + path, { ...options, headers });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error?.message ?? `HTTP ${answer.status}`);
  return body;
}

function say(text, bad = false) {
  at("state").textContent = text;
  at("state").classList.toggle("bad", bad);
}

function row(cells, className = "") {
  const made = document.createElement("tr");
  made.className = className;
  for (const cell of cells) {
    const td = document.createElement("td");
    if (cell instanceof Node) td.append(cell);
    else td.textContent = cell ?? "–";
    if (typeof cell === "string" && cell.length > 40) { td.className = "text"; td.title = cell; }
    made.append(td);
  }
  return made;
}

function button(text, action) {
  const made = document.createElement("button");
  made.className = "link";
  made.type = "button";
  made.textContent = text;
  made.addEventListener("click", () => action().catch(problem => say(problem.message, true)));
  return made;
}

const body = table => at(table).tBodies[0];
const named = ref => `${ref.id}@${ref.version}`;

function capsuleRow(capsule) {
  const holders = nodes.filter(n => n.resident_capsules.includes(named(capsule))).map(n => n.name);
  const open = button(named(capsule), () => show(capsule.id));
  return row([open, capsule.kind, capsule.text, holders.join(", ") || "–"]);
}

async function list(cursor = null) {
  const words = at("words").value.trim();
  let items;
  if (words) {
    const found = await ask("/search", { method: "POST", body: JSON.stringify({ text: words, limit: 50 }) });
    [items, next] = [found.hits.map(hit => hit.capsule), null];
  } else {
    const page = await ask(`/capsules?limit=50${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
    [items, next] = [page.items, page.next];
  }
  if (!cursor) body("capsules").replaceChildren();
  body("capsules").append(...items.map(capsuleRow));
  at("more").hidden = next === null;
}

// The versions of a capsule; and what ended with the last one that a change ended, or would end with the one in force.
async function show(id) {
  chosen = id;
  const versions = (await ask(`/capsules/${encodeURIComponent(id)}/versions?limit=1000`)).items;
  const rows = [];
  for (const version of versions) {
    const open = button(named(version), () => cascade(version));
    const by = version.ended_epoch === null ? "–" : `epoch ${version.ended_epoch}`;
    rows.push(row([open, version.text, version.in_force ? "yes" : "no", by], version.in_force ? "" : "ended"));
  }
  body("versions").replaceChildren(...rows);
  at("one-title").textContent = `Versions of ${id}`;
  at("hint").hidden = true;
  at("versions").hidden = false;
  if (versions.length) await cascade(versions.find(v => v.in_force) ?? versions[versions.length - 1]);
}

async function cascade(version) {
  let impacts, words, total;
  if (version.ended_epoch === null) {
    const found = await ask(`/capsules/${encodeURIComponent(version.id)}/versions/${version.version}/impact?limit=200`);
    [impacts, total] = [found.impacts, found.ended];
    words = `Correcting ${named(version)} would end ${found.ended} version${found.ended === 1 ? "" : "s"}.`;
  } else {
    impacts = (await ask(`/events/${version.ended_epoch}/ended?limit=200`)).items;
    const event = await ask(`/events/${version.ended_epoch}`);
    total = event.result.ended;
    words = `Ended by “${event.operation}” of ${event.capsule ?? "–"} (${event.actor}): ${event.reason || "no reason given"}. `
      + `${event.result.ended} ended with it.`;
  }
  const around = await ask("/dependencies/around", {
    method: "POST", body: JSON.stringify({ versions: impacts.map(i => i.ref) }),
  });
  if (total > impacts.length) words += ` Drawn are the first ${impacts.length} of ${total}.`;
  if (around.more) words += " Not all of their neighbours are drawn.";
  at("cascade").textContent = words;
  drawGraph(
    at("graph"), impacts.map(i => ({ name: named(i.ref), depth: i.depth })),
    around.edges.map(e => ({ source: named(e.source), derived: named(e.derived) })),
  );
}

const median = values => {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor(sorted.length / 2)] : null;
};

async function live() {
  const [found, requests] = await Promise.all([ask("/nodes"), ask("/requests?limit=100")]);
  nodes = found;
  body("nodes").replaceChildren(...nodes.map(n => row([
    n.name, n.health, n.resident_blocks === null ? "not known" : `${n.resident_blocks} of ${n.blocks ?? "?"}`,
    String(n.in_flight), n.resident_capsules.join(", ") || "–",
  ])));
  const served = requests.filter(r => r.ttft_ms !== null);
  const known = served.filter(r => r.cached !== null);
  const sum = (list, field) => list.reduce((total, r) => total + r[field], 0);
  const share = (part, whole) => whole ? `${(100 * part / whole).toFixed(1)} %` : "–";
  const middle = median(served.map(r => r.ttft_ms));
  at("ttft").textContent = middle === null ? "–" : `${middle.toFixed(1)} ms`;
  at("reuse").textContent = share(sum(known, "cached"), sum(known, "prompt_tokens"));
  const predicted = known.filter(r => r.predicted !== null);
  at("exact").textContent = share(predicted.filter(r => r.predicted === r.cached).length, predicted.length);
  at("overlapped").textContent = String(requests.filter(r => r.overlapped.length).length);
  drawChart(at("chart"), served.toReversed().map(r => ({ ms: r.ttft_ms, cached: r.cached, name: r.id })));
  body("requests").replaceChildren(...requests.slice(0, 20).map(r => row([
    r.id, r.node, r.capsules.join(", ") || "–", r.ttft_ms?.toFixed(1),
    r.cached === null ? "–" : `${r.cached} / ${r.prompt_tokens}`,
    r.outcome + (r.overlapped.length ? `, overlapped ${r.overlapped.join(", ")}` : ""),
  ])));
}

async function changes() {
  const { epoch } = await ask("/state");
  const events = (await ask(`/events?limit=20&cursor=${Math.max(0, epoch - 20)}`)).items;
  at("events").replaceChildren(...events.reverse().map(event => {
    const made = document.createElement("li");
    made.value = event.epoch;
    const text = `${event.operation} ${event.capsule ?? ""} by ${event.actor}, ended ${event.result.ended}`;
    made.append(event.capsule ? button(text, () => show(event.capsule)) : text);
    return made;
  }));
  return epoch;
}

async function refresh(last) {
  await live();
  const epoch = await changes();
  if (epoch !== last) {
    await list();
    if (chosen !== null) await show(chosen);
  }
  return epoch;
}

async function open() {
  clearTimeout(running);
  let last = null;
  const again = async () => {
    try {
      last = await refresh(last);
      sessionStorage.setItem("plane-token", token);
      at("content").hidden = false;
      say(`Epoch ${last}.`);
    } catch (problem) {
      say(problem.message, true);
      if (at("content").hidden) return;
    }
    running = setTimeout(again, POLL_MS);
  };
  await again();
}

at("login").addEventListener("submit", event => {
  event.preventDefault();
  token = at("token").value.trim();
  at("token").value = "";
  open();
});
at("search").addEventListener("submit", event => event.preventDefault());
at("words").addEventListener("input", () => list().catch(problem => say(problem.message, true)));
at("more").addEventListener("click", () => list(next).catch(problem => say(problem.message, true)));
if (token) open();
