// Draws a dependency graph in layers: what was changed on the left, what was derived from it to the right.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const BOX = { width: 170, height: 30, across: 220, down: 44 };

function shape(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// hits: [{name, depth}], what a change ends. edges: [{source, derived}] of these, to one another and to neighbours that
// the change leaves alone: those are drawn a column before what was made from them or after what they were made from.
function drawGraph(svg, hits, edges) {
  svg.replaceChildren();
  const columns = new Map(hits.map(hit => [hit.name, hit.depth]));
  const hit = new Set(columns.keys());
  for (const { source, derived } of edges) {
    if (!columns.has(source)) columns.set(source, columns.get(derived) - 1);
    if (!columns.has(derived)) columns.set(derived, columns.get(source) + 1);
  }
  const first = Math.min(0, ...columns.values());
  const rows = new Map();
  const places = new Map();
  for (const [name, column] of columns) {
    const row = rows.get(column) ?? 0;
    rows.set(column, row + 1);
    places.set(name, { x: 4 + (column - first) * BOX.across, y: 4 + row * BOX.down });
  }
  const width = 8 + BOX.width + Math.max(0, ...[...rows.keys()].map(column => column - first)) * BOX.across;
  const height = 8 + Math.max(1, ...rows.values()) * BOX.down;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.style.maxWidth = `${width}px`;
  for (const { source, derived } of edges) {
    const from = places.get(source), to = places.get(derived);
    const [x1, y1, x2, y2] = [from.x + BOX.width, from.y + BOX.height / 2, to.x, to.y + BOX.height / 2];
    const bend = (x1 + x2) / 2;
    const marked = hit.has(source) && hit.has(derived) ? "edge hit" : "edge";
    svg.append(shape("path", { class: marked, d: `M${x1},${y1} C${bend},${y1} ${bend},${y2} ${x2},${y2}` }));
  }
  for (const [name, { x, y }] of places) {
    const root = hit.has(name) && columns.get(name) === 0;
    const group = shape("g", { class: `node${hit.has(name) ? " hit" : ""}${root ? " root" : ""}` });
    group.append(
      shape("rect", { x, y, width: BOX.width, height: BOX.height, rx: 6 }),
      shape("text", { x: x + 8, y: y + 20 }, name.length > 24 ? name.slice(0, 23) + "…" : name),
      shape("title", {}, name),
    );
    svg.append(group);
  }
  svg.removeAttribute("hidden");
}

// values: [{ms, cached, name}], oldest first.
function drawChart(svg, values) {
  svg.replaceChildren();
  const [width, height] = [600, 90];
  const top = Math.max(1, ...values.map(v => v.ms));
  const step = width / Math.max(values.length, 30);
  svg.setAttribute("viewBox", `0 0 ${width} ${height + 16}`);
  values.forEach((value, i) => {
    const size = Math.max(1, (value.ms / top) * height);
    const bar = shape("rect", {
      class: value.cached ? "bar" : "bar cold", x: i * step, y: height - size, width: step * 0.8, height: size,
    });
    bar.append(shape("title", {}, `${value.name}: ${value.ms.toFixed(1)} ms, ${value.cached ?? "?"} tokens cached`));
    svg.append(bar);
  });
  if (values.length) svg.append(shape("text", { x: 0, y: height + 13 }, `up to ${top.toFixed(0)} ms; grey: nothing reused`));
}
