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

// impacts: [{name, depth, via}], via the name it was derived from on a shortest path, or null.
function drawGraph(svg, impacts) {
  svg.replaceChildren();
  const layers = new Map();
  const places = new Map();
  for (const impact of impacts) {
    const row = layers.get(impact.depth) ?? 0;
    layers.set(impact.depth, row + 1);
    places.set(impact.name, { x: 4 + impact.depth * BOX.across, y: 4 + row * BOX.down });
  }
  const width = 8 + BOX.width + Math.max(0, ...layers.keys()) * BOX.across;
  const height = 8 + Math.max(1, ...layers.values()) * BOX.down;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.style.maxWidth = `${width}px`;
  for (const impact of impacts) {
    const from = places.get(impact.via), to = places.get(impact.name);
    if (!from) continue;
    const [x1, y1, x2, y2] = [from.x + BOX.width, from.y + BOX.height / 2, to.x, to.y + BOX.height / 2];
    const bend = (x1 + x2) / 2;
    svg.append(shape("path", { class: "edge hit", d: `M${x1},${y1} C${bend},${y1} ${bend},${y2} ${x2},${y2}` }));
  }
  for (const impact of impacts) {
    const { x, y } = places.get(impact.name);
    const group = shape("g", { class: impact.depth ? "node hit" : "node hit root" });
    group.append(
      shape("rect", { x, y, width: BOX.width, height: BOX.height, rx: 6 }),
      shape("text", { x: x + 8, y: y + 20 }, impact.name.length > 24 ? impact.name.slice(0, 23) + "…" : impact.name),
      shape("title", {}, impact.name),
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
