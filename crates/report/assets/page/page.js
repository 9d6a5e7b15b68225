// The page: which workload and which policies are shown, light or dark, and pictures that are drawn when they come into view.

const data = JSON.parse(document.getElementById("data").textContent);
const colourOf = colourer(data.things);
const state = {
  look: theme(),
  names: data.policies.map((p) => p.name),
  // All lines at once may be a tangle; the others can be chosen.
  shown: data.policies.map((p) => p.shown),
};
const pictures = new Map();

function draw(picture) {
  const { figure, plot, content } = picture;
  const width = plot.clientWidth;
  if (!width) return;
  const choice = {};
  for (const select of figure.querySelectorAll("select[data-choice]")) choice[select.dataset.choice] = select.value;
  const made = charts[content.kind](content.data, { ...state, width, narrow: width < 560, choice });
  // Titles that only repeat the caption are not drawn, but saved pictures and tests want to know what a chart is.
  plot.style.height = `${made.height}px`;
  if (!picture.chart) {
    picture.chart = echarts.init(plot, null, { renderer: "svg" });
    picture.chart.on("click", (event) => {
      const target = picture.target && picture.target(event);
      if (target) showRequest(picture, target.policy, target.at);
    });
  }
  picture.chart.resize({ width, height: made.height });
  picture.chart.setOption(made.option, { notMerge: true });
  Object.assign(picture, { stops: made.stops, stop: -1, zoom: made.zoom, target: made.target, width });
  figure.dataset.drawn = state.look.dark ? "dark" : "light";
}

function redraw() {
  for (const picture of pictures.values()) {
    if (!picture.chart) continue;
    if (picture.plot.clientWidth) draw(picture);
    else {
      // Hidden: drawn anew when it is shown again.
      picture.chart.dispose();
      picture.chart = null;
      coming.unobserve(picture.plot);
      coming.observe(picture.plot);
    }
  }
}

const coming = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      const picture = pictures.get(target);
      if (isIntersecting && !picture.chart) draw(picture);
    }
  },
  { rootMargin: "400px" },
);
const sized = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const picture = pictures.get(target);
    if (picture.chart && target.clientWidth && target.clientWidth !== picture.width) draw(picture);
  }
});

// Arrow keys go through the values of a picture; what the tooltip says is spoken, too.
function onKey(event) {
  const picture = pictures.get(event.currentTarget);
  const { chart, stops } = picture;
  if (!chart || event.altKey || event.ctrlKey || event.metaKey) return;
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  if (event.key in steps && stops.length) {
    event.preventDefault();
    picture.stop = Math.min(Math.max(picture.stop + steps[event.key], 0), stops.length - 1);
    chart.dispatchAction({ type: "showTip", ...stops[picture.stop] });
    const shownTip = [...event.currentTarget.children].find((c) => c.style.position === "absolute" && c.textContent);
    document.getElementById("spoken").textContent = shownTip ? [...shownTip.querySelectorAll("b, td")].map((c) => c.textContent).join(" ") : "";
  } else if (event.key === "Enter" && picture.target && picture.stop >= 0) {
    const target = picture.target(stops[picture.stop]);
    if (target) showRequest(picture, target.policy, target.at);
  } else if (event.key === "Escape") {
    chart.dispatchAction({ type: "hideTip" });
    picture.stop = -1;
  } else if (picture.zoom && "+=-".includes(event.key)) {
    event.preventDefault();
    const { start = 0, end = 100 } = chart.getOption().dataZoom[0];
    const half = ((end - start) / 2) * (event.key === "-" ? 2 : 0.5);
    const middle = (start + end) / 2;
    chart.dispatchAction({ type: "dataZoom", start: Math.max(middle - half, 0), end: Math.min(middle + half, 100) });
  }
}

for (const figure of document.querySelectorAll("figure.picture")) {
  const plot = figure.querySelector(".plot");
  pictures.set(plot, { figure, plot, content: data.figures[figure.id], chart: null });
  plot.addEventListener("keydown", onKey);
  for (const select of figure.querySelectorAll("select")) {
    select.addEventListener("change", () => draw(pictures.get(plot)));
  }
  addSaveButtons(pictures.get(plot));
  coming.observe(plot);
  sized.observe(plot);
}

// From a bar of "where a request's time goes" to such a request in the timeline of the same workload.
function showRequest(picture, policy, at) {
  const id = picture.figure.id.replace("parts", "timeline");
  const figure = document.getElementById(id);
  const content = data.figures[id];
  const wanted = at === "mean" ? "p50" : at;
  if (!content || !content.data.views.some((v) => v.policy === policy && v.at === wanted)) return;
  for (const [key, value] of [["policy", String(policy)], ["at", wanted]]) {
    const select = figure.querySelector(`select[data-choice="${key}"]`);
    if (select) select.value = value;
  }
  const plot = figure.querySelector(".plot");
  draw(pictures.get(plot));
  figure.scrollIntoView();
  plot.focus({ preventScroll: true });
}

// One workload at a time.
const sections = [...document.querySelectorAll("section.workload")];
const select = document.getElementById("workload");
function showWorkload(id) {
  for (const section of sections) section.hidden = section.id !== id;
  select.value = id;
  for (const link of document.querySelectorAll("#bar a[data-group]")) link.hash = `${id}-${link.dataset.group}`;
}
function followHash() {
  const [id] = location.hash.slice(1).split("-");
  if (!sections.some((s) => s.id === id)) return;
  showWorkload(id);
  const target = document.getElementById(location.hash.slice(1));
  if (target) target.scrollIntoView();
}
if (sections.length) {
  showWorkload(sections[0].id);
  select.addEventListener("change", () => {
    showWorkload(select.value);
    const top = document.getElementById(select.value).getBoundingClientRect().top;
    // From further down one would look at nothing.
    if (top < 0) document.getElementById(select.value).scrollIntoView();
  });
  addEventListener("hashchange", followHash);
  followHash();
}

// A button per policy, which is the legend of all pictures.
function swatch(index) {
  const { colour, dash, symbol } = policyLook(index, state.look);
  const pattern = dash === "solid" ? "" : ` stroke-dasharray="${dash.join(" ")}"`;
  const marks = {
    circle: '<circle cx="14" cy="6" r="4"/>', rect: '<rect x="10" y="2" width="8" height="8"/>', triangle: '<path d="M14 1l5 9H9z"/>',
    diamond: '<path d="M14 1l5 5-5 5-5-5z"/>', roundRect: '<rect x="10" y="2" width="8" height="8" rx="2"/>', arrow: '<path d="M14 1l4 10-4-3-4 3z"/>',
    pin: '<path d="M14 11c-6-5-5-10 0-10s6 5 0 10z"/>',
  };
  const mark = marks[symbol] || '<path d="M13 2h2v3h3v2h-3v3h-2v-3h-3v-2h3z"/>';
  return `<svg viewBox="0 0 28 12" aria-hidden="true" stroke="${colour}" stroke-width="2" fill="${state.look.paper}">` +
    `<path d="M0 6H28"${pattern}/>${mark}</svg>`;
}
function drawPolicies() {
  const box = document.getElementById("policies");
  if (!box) return;
  box.replaceChildren(...state.names.map((name, index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.innerHTML = swatch(index);
    const isolated = document.createElement("bdi");
    isolated.append(name);
    button.append(isolated);
    button.setAttribute("aria-pressed", String(state.shown[index]));
    button.addEventListener("click", () => {
      state.shown[index] = !state.shown[index];
      // Nothing at all is no picture.
      if (!state.shown.includes(true)) state.shown[index] = true;
      button.setAttribute("aria-pressed", String(state.shown[index]));
      redraw();
    });
    return button;
  }));
}
drawPolicies();

// Light or dark as the system has it, until the button says otherwise.
const system = matchMedia("(prefers-color-scheme: dark)");
const button = document.getElementById("theme");
function themeChanged() {
  state.look = theme();
  button.textContent = state.look.dark ? "Light" : "Dark";
  button.setAttribute("aria-pressed", String(state.look.dark));
  drawPolicies();
  redraw();
}
button.addEventListener("click", () => {
  document.documentElement.dataset.theme = state.look.dark ? "light" : "dark";
  themeChanged();
});
system.addEventListener("change", themeChanged);
themeChanged();
addEventListener("beforeprint", () => {
  for (const picture of pictures.values()) if (!picture.chart) draw(picture);
});
