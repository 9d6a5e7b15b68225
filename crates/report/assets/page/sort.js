// Tables of comparison are sorted by their columns: a button in each head. Without a script the order is that of the study.

for (const table of document.querySelectorAll("table.sortable")) {
  const [body] = table.tBodies;
  const heads = [...table.tHead.rows[0].cells];
  // A row without a number comes last, whichever way the column is sorted.
  const compareRows = (column, sign) => (a, b) => {
    if (column === 0) return sign * a.cells[0].textContent.localeCompare(b.cells[0].textContent, "en", { numeric: true });
    const [x, y] = [a, b].map((row) => row.cells[column].dataset.number);
    if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
    return sign * (Number(x) - Number(y));
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    const notes = [...head.children].find((child) => child.tagName === "SMALL");
    const title = [...head.childNodes];
    button.append(...title.slice(0, notes ? title.indexOf(notes) : title.length));
    head.prepend(button);
    button.addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      body.append(...[...body.rows].sort(compareRows(column, descending ? -1 : 1)));
    });
  });
}
