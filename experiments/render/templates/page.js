{
  const store = JSON.parse(document.getElementById("rows").textContent);
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
  const csvOf = slug => {
    const table = document.querySelector(`#${CSS.escape(slug)} table`);
    const rows = store.artefacts[table.dataset.artefact].rows;
    const keys = [...table.querySelectorAll("[data-row]")].map(cell => cell.dataset.row);
    const body = [...new Set(keys)].map(key => store.columns.map((_, at) => quote(rows[key][at] ?? null)).join(","));
    return [store.columns.join(","), ...body].join("\n") + "\n";
  };
  const show = (artefact, key) => {
    const { rows, commands } = store.artefacts[artefact];
    const values = Object.fromEntries(store.columns.map((name, at) => [name, rows[key][at] ?? null]));
    const box = document.getElementById("row");
    box.querySelector("dl").replaceChildren(...Object.entries({ row: `${artefact}:${key}`, ...values })
      .filter(([, value]) => value !== null && value !== "")
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
    if (!button) return;
    if (button.dataset.csv) save(`${button.dataset.csv}.csv`, "text/csv", csvOf(button.dataset.csv));
    if (button.dataset.svg) {
      const drawing = document.querySelector(`#${CSS.escape(button.dataset.svg)} svg`).cloneNode(true);
      drawing.style.color = "#010203";
      save(`${button.dataset.svg}.svg`, "image/svg+xml", new XMLSerializer().serializeToString(drawing));
    }
    const cell = button.classList.contains("number") ? button.closest("[data-row]") : null;
    if (cell) show(cell.closest("table").dataset.artefact, cell.dataset.row);
    if (button.dataset.of) show(button.dataset.of, button.dataset.key);
  });
}
