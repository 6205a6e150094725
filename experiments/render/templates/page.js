{
  const form = document.getElementById("filters");
  const lines = [...document.querySelectorAll("#claims tbody tr")];
  const filter = () => {
    const labels = new Set([...form.querySelectorAll("input[name=label]:checked")].map(box => box.value));
    const paper = form.elements.paper.value;
    const text = form.elements.text.value.trim().toLowerCase();
    let shown = 0;
    for (const line of lines) {
      const fits = labels.has(line.dataset.label) && line.id.startsWith(paper) && line.textContent.toLowerCase().includes(text);
      line.hidden = !fits;
      shown += fits;
    }
    document.getElementById("shown").textContent = `${shown} claim${shown === 1 ? "" : "s"}`;
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", event => event.preventDefault());

  const save = (name, type, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const quote = value => value === null ? "" : /[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value);

  // Rows, drawings and folded tables, see embed.py. Written into the stream: as a blob they would go through a file.
  const unpack = () => {
    const bytes = Uint8Array.from(atob(document.getElementById("packed").textContent), letter => letter.charCodeAt(0));
    const stream = new DecompressionStream("gzip");
    const writer = stream.writable.getWriter();
    writer.write(bytes);
    writer.close();
    return new Response(stream.readable).json();
  };
  let store;
  const fill = unpacked => {
    store = unpacked;
    for (const place of document.querySelectorAll("[data-part]")) place.innerHTML = store.parts[place.dataset.part];
    for (const cell of document.querySelectorAll("table[data-field] [data-r]")) {
      const { artefact, field } = cell.closest("table").dataset;
      const value = store.artefacts[artefact].fields[field]?.[cell.dataset.r] ?? null;
      if (value !== null) cell.dataset.v = value;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "number";
      button.append(...cell.childNodes);
      cell.append(button);
    }
    document.getElementById("packed-note").hidden = true;
    // The place a link leads to may be new, or have moved.
    if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
  };
  const valuesOf = (artefact, at) => store.columns.map(name => store.artefacts[artefact].fields[name]?.[at] ?? null);
  const csvOf = slug => {
    const table = document.querySelector(`#${CSS.escape(slug)} table`);
    const shown = new Set([...table.querySelectorAll("[data-r]")].map(cell => cell.dataset.r));
    const body = [...shown].map(at => valuesOf(table.dataset.artefact, at).map(quote).join(","));
    return [store.columns.join(","), ...body].join("\n") + "\n";
  };
  const show = (artefact, at) => {
    const { keys, commands } = store.artefacts[artefact];
    const values = Object.fromEntries(valuesOf(artefact, at).map((value, place) => [store.columns[place], value]));
    const box = document.getElementById("row");
    box.querySelector("dl").replaceChildren(...Object.entries({ row: `${artefact}:${keys[at]}`, ...values })
      .filter(([, value]) => value !== null)
      .flatMap(([name, value]) => {
        const term = document.createElement("dt"), text = document.createElement("dd");
        term.textContent = name.replaceAll("_", " ");
        text.textContent = value;
        return [term, text];
      }));
    box.querySelector("code").textContent = commands[values.entry] || commands[""];
    box.showModal();
  };
  document.addEventListener("click", event => {
    const button = event.target.closest("button");
    if (!button || !store) return;
    if (button.dataset.csv) save(`${button.dataset.csv}.csv`, "text/csv", csvOf(button.dataset.csv));
    if (button.dataset.svg) {
      const drawing = document.querySelector(`#${CSS.escape(button.dataset.svg)} svg`).cloneNode(true);
      drawing.style.color = "#010203";
      save(`${button.dataset.svg}.svg`, "image/svg+xml", new XMLSerializer().serializeToString(drawing));
    }
    const cell = button.classList.contains("number") ? button.closest("[data-r]") : null;
    if (cell) show(cell.closest("table").dataset.artefact, cell.dataset.r);
    if (button.dataset.of) show(button.dataset.of, button.dataset.r);
  });
  // For whoever has to wait for it. Without a stream to unpack with, this rejects and the note stays.
  window.ready = Promise.resolve().then(unpack).then(fill);
}
