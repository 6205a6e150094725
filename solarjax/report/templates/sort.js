document.addEventListener("click", event => {
  // One listener for the page, so that a table may come later.
  const head = event.target.closest("table > thead th");
  if (!head || !event.target.closest("button")) return;
  const body = head.closest("table").tBodies[0];
  const column = head.cellIndex;
  const down = head.getAttribute("aria-sort") !== "descending";
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const key = row => row.cells[column].dataset.v;
  const compare = (a, b) => {
    if (key(a) === undefined || key(b) === undefined) return (key(a) === undefined) - (key(b) === undefined);
    const [x, y] = [Number(key(a)), Number(key(b))];
    const order = Number.isNaN(x) || Number.isNaN(y) ? key(a).localeCompare(key(b)) : x - y;
    return down ? -order : order;
  };
  body.append(...[...body.rows].sort(compare));
});
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(part => { part.open = true; }));
