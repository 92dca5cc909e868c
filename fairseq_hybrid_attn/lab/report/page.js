// Tables of a report sort at a click on a heading; a small map is shown large at a click.
(() => {
  "use strict";
  const number = (text) => parseFloat(text.replaceAll(",", "").replace("\u2212", "-"));
  function sort(heading) {
    const table = heading.closest("table");
    const body = table.tBodies[0];
    const column = heading.cellIndex;
    const falls = heading.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", falls ? "descending" : "ascending");
    const rows = [...body.rows].map((row) => [row.cells[column].textContent, row]);
    const numeric = rows.every(([text]) => text === "" || !Number.isNaN(number(text)));
    rows.sort(([a], [b]) => {
      if (a === "" || b === "") return (a === "") - (b === "");
      const order = numeric ? number(a) - number(b) : a.localeCompare(b);
      return falls ? -order : order;
    });
    body.append(...rows.map(([, row]) => row));
  }
  for (const heading of document.querySelectorAll(".sortable th")) {
    heading.tabIndex = 0;
    heading.addEventListener("click", () => sort(heading));
    heading.addEventListener("keydown", (event) => {
      if (event.key === "Enter") sort(heading);
    });
  }
  for (const small of document.querySelectorAll(".small-map")) {
    small.addEventListener("click", () => {
      const maps = document.querySelector(".attention-maps");
      const shows = { ...small.dataset, sentence: "0" };
      for (const name of ["sentence", "kind", "model", "layer", "branch", "head"]) {
        const choice = maps.querySelector(`[data-choice="${name}"], [data-choice="${name}-0"]`);
        choice.value = shows[name];
        choice.dispatchEvent(new Event("change"));
      }
      maps.scrollIntoView();
    });
  }
})();
