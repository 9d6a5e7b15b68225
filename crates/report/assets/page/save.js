// Pictures and their tables as files. They are made of what the page has, so they work offline.

// Offers a text as a download.
function offerFile(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// The picture as it is shown, with its title on a background of the page's colour.
function pictureAsSvg(picture) {
  const drawn = picture.plot.querySelector("svg");
  const [width, height] = [Number(drawn.getAttribute("width")), Number(drawn.getAttribute("height"))];
  const { look } = state;
  const inner = new XMLSerializer().serializeToString(drawn);
  const title = escapeHtml(picture.content.title);
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height + 32}" viewBox="0 0 ${width} ${height + 32}">` +
    `<title>${title}</title><rect width="100%" height="100%" fill="${look.paper}"/>` +
    `<text x="8" y="22" fill="${look.ink}" font-family="sans-serif" font-size="16" font-weight="600">${title}</text>` +
    `<g transform="translate(0 32)">${inner}</g></svg>\n`;
}

// The table behind the picture. Numbers lose their grouping, and a column of percentages has its sign in the head.
function tableAsCsv(table) {
  const rows = [...table.rows].map((row) => [...row.cells].map((cell) => plainNumber(cell.textContent.trim())));
  const [head, ...body] = rows;
  head.forEach((name, column) => {
    const cells = body.map((row) => row[column]).filter((cell) => cell !== "");
    if (!cells.length || !cells.every((cell) => cell.endsWith(" %"))) return;
    head[column] = `${name}, %`;
    for (const row of body) row[column] = row[column].replace(/ %$/, "");
  });
  // A program that calculates would take a cell that begins so for a formula.
  const guarded = (cell) => (/^[=@\t]|^[+-](?![\d.])/.test(cell) ? `'${cell}` : cell);
  const quoted = (cell) => (/[",\n\r]/.test(cell) ? `"${cell.replace(/"/g, '""')}"` : cell);
  return rows.map((row) => row.map((cell) => quoted(guarded(cell))).join(",")).join("\n") + "\n";
}

// A number as programs read it; nothing for a dash in place of a number; other texts as they are.
function plainNumber(text) {
  if (text === "–") return "";
  return /^[+−]?[\d.\u202f]+( %|e−?\d+)?$/.test(text) ? text.replace(/\u202f/g, "").replace(/−/g, "-") : text;
}

// Buttons beside a picture's title.
function addSaveButtons(picture) {
  const { figure } = picture;
  const box = document.createElement("span");
  box.className = "save";
  const add = (label, hint, save) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.title = hint;
    button.setAttribute("aria-label", `${hint}: ${picture.content.title}`);
    button.addEventListener("click", save);
    box.append(button);
  };
  add("SVG", "Save this picture", () => {
    if (!picture.chart) draw(picture);
    offerFile(`${figure.id}.svg`, "image/svg+xml", pictureAsSvg(picture));
  });
  add("CSV", "Save the table of this picture", () => {
    offerFile(`${figure.id}.csv`, "text/csv", tableAsCsv(figure.querySelector("table")));
  });
  figure.querySelector("figcaption").append(box);
}
