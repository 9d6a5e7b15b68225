// How charts look: colours, dashes and symbols that also tell policies apart in grey, axes, and tooltips.

const COLOURS = {
  light: ["#0b5cad", "#c2410c", "#0f7a55", "#a21caf", "#8a6100", "#0e7490", "#4c1d95", "#475569"],
  dark: ["#7ab8f5", "#fb9a5c", "#5fd3a4", "#e59bf0", "#e3b85c", "#67d5ea", "#b7a3ff", "#aab6c4"],
};
const DASHES = ["solid", [7, 4], [2, 3], [10, 3, 2, 3], [14, 4], [5, 2, 1, 2, 1, 2], [3, 6], [1, 2]];
const SYMBOLS = ["circle", "rect", "triangle", "diamond", "path://M-1,-4H1V-1H4V1H1V4H-1V1H-4V-1H-1Z", "roundRect", "arrow", "pin"];
// Decals of bars; the first is none.
const DECALS = [
  { symbol: "none" },
  { dashArrayX: [1, 0], dashArrayY: [2, 4], rotation: Math.PI / 4 },
  { dashArrayX: [[6, 6], [0, 6, 6, 0]], dashArrayY: [3, 0], rotation: 0, symbolSize: 0.7 },
  { dashArrayX: [1, 0], dashArrayY: [2, 5], rotation: -Math.PI / 4 },
  { symbol: "circle", dashArrayX: [[6, 6], [0, 6, 6, 0]], dashArrayY: [5, 0], symbolSize: 0.5 },
  { dashArrayX: [1, 0], dashArrayY: [1, 4], rotation: 0 },
  { dashArrayX: [1, 0], dashArrayY: [1, 4], rotation: Math.PI / 2 },
  { symbol: "triangle", dashArrayX: [[7, 7], [0, 7, 7, 0]], dashArrayY: [7, 0], symbolSize: 0.6 },
];

const escapeHtml = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

// Four significant digits, thousands apart.
function short(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const small = size > 0 && size < 0.99995 ? size.toExponential(3) : "";
  const digits = small ? 3 - Number(small.split("e")[1])
    : size >= 999.95 || size === 0 ? 0 : size >= 99.995 ? 1 : size >= 9.9995 ? 2 : 3;
  if (digits > 9) return (value < 0 ? "−" : "") + small.replace("-", "−");
  const [whole, fraction] = size.toFixed(digits).split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, "\u202f");
  return (value < 0 ? "−" : "") + grouped + (fraction ? `.${fraction}` : "");
}

// Without zeros that say nothing; for axes.
const plain = (value) => short(Number(value.toPrecision(6))).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");

// What the style sheet says, as colours that charts take.
function theme() {
  const probe = document.createElement("i");
  document.body.append(probe);
  const colour = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const names = ["paper", "panel", "ink", "quiet", "line", "accent", "better", "worse"];
  const found = Object.fromEntries(names.map((name) => [name, colour(name)]));
  const [red] = found.paper.match(/\d+/g).map(Number);
  found.dark = red < 128;
  found.font = getComputedStyle(document.body).fontFamily;
  probe.remove();
  return found;
}

function policyLook(index, look) {
  const colours = COLOURS[look.dark ? "dark" : "light"];
  const lap = Math.floor(index / colours.length);
  const other = (index + lap) % colours.length;
  return {
    colour: colours[index % colours.length],
    dash: DASHES[other],
    symbol: SYMBOLS[other],
    decal: DECALS[other],
  };
}

const BUSY = { light: "#e8a33d", dark: "#d9a05b" };

// One colour per thing: a function from a name and a look to the colour that the name has in every picture. Idle states are
// lighter or darker by their depth, busy time is orange, and whatever else is drawn has a colour of its own.
function colourer(things) {
  return (name, look) => {
    if (things.busy.includes(name)) return BUSY[look.dark ? "dark" : "light"];
    const depth = things.states.indexOf(name);
    if (depth >= 0) return ramp(things.states.length, look)[depth];
    return distinct(things.others.length, look)[Math.max(things.others.indexOf(name), 0)];
  };
}



// Light to dark on light paper and the other way round on dark paper: the deeper, the further from the paper.
function ramp(count, look, hue = "blue") {
  const ends = {
    blue: look.dark ? [[44, 66, 92], [196, 224, 255]] : [[206, 224, 243], [9, 46, 92]],
    grey: look.dark ? [[64, 70, 78], [232, 235, 239]] : [[221, 225, 230], [40, 46, 54]],
  };
  const [from, to] = ends[hue];
  return Array.from({ length: count }, (_, i) => {
    const at = count < 2 ? 1 : i / (count - 1);
    return `#${from.map((f, k) => Math.round(f + (to[k] - f) * at).toString(16).padStart(2, "0")).join("")}`;
  });
}

// Colours for things without an order, such as parts of latency: neighbours differ in lightness. Blue belongs to idle states
// and orange to busy time.
function categories(look) {
  return look.dark
    ? ["#5fc4c9", "#2f6b6f", "#f2a08a", "#8c4a2f", "#b9e0c8", "#3f7d5f", "#e3a8d8", "#7a4a86", "#c9cfd6", "#6b7683"]
    : ["#1f8a8f", "#a9dcdd", "#b5441c", "#f3b9a5", "#2f7d5b", "#b5dcc6", "#8e3b8a", "#e2bfe0", "#56606b", "#c3cad2"];
}

// Hues a golden angle apart, from 260 to 380 and 60 to 180 degrees: no blue, and no orange.
const hueBesideBlue = (i) => {
  const at = (i * 137.508) % 240;
  return at < 120 ? 60 + at : 140 + at;
};

// As many colours as there are things: those above, then further hues in three lightnesses.
function distinct(count, look) {
  const first = categories(look);
  const levels = look.dark ? [0.66, 0.44, 0.8] : [0.5, 0.72, 0.34];
  return Array.from({ length: count }, (_, i) => {
    if (i < first.length) return first[i];
    const lightness = levels[i % 3];
    const part = (n) => {
      const k = (n + hueBesideBlue(i) / 30) % 12;
      const value = lightness - 0.55 * Math.min(lightness, 1 - lightness) * Math.max(-1, Math.min(k - 3, 9 - k, 1));
      return Math.round(255 * value).toString(16).padStart(2, "0");
    };
    return `#${part(0)}${part(8)}${part(4)}`;
  });
}

function base(look) {
  return {
    animation: false,
    textStyle: { fontFamily: look.font, color: look.ink, fontSize: 13 },
    aria: { enabled: true, label: { enabled: false } },
    grid: { left: 8, right: 20, top: 12, bottom: 8, outerBoundsMode: "same", outerBoundsContain: "all" },
    tooltip: {
      confine: true,
      backgroundColor: look.paper,
      borderColor: look.quiet,
      textStyle: { color: look.ink, fontSize: 13 },
      extraCssText: "max-width: 22rem; white-space: normal;",
    },
  };
}

function axis(look, more) {
  return {
    axisLine: { show: true, lineStyle: { color: look.quiet } },
    axisTick: { show: false },
    splitLine: { show: true, lineStyle: { color: look.line } },
    axisLabel: { color: look.quiet, fontSize: 12, hideOverlap: true },
    nameLocation: "middle",
    nameGap: 24,
    nameTextStyle: { color: look.quiet, fontSize: 12 },
    ...more,
  };
}

// A logarithmic axis that begins and ends near the data; the chart gets logarithms to the base of 10.
function logAxis(look, values, name, narrow) {
  const positive = values.filter((v) => v > 0 && Number.isFinite(v));
  let low = Math.log10(Math.min(...positive));
  let high = Math.log10(Math.max(...positive));
  if (!positive.length) [low, high] = [0, 1];
  const margin = Math.max((high - low) * 0.04, 0.02);
  low -= margin;
  high += margin;
  const fits = (steps) => {
    const ticks = [];
    for (let power = Math.floor(low) - 1; power <= Math.ceil(high); power += 1) {
      for (const step of steps) {
        const tick = power + Math.log10(step);
        if (tick >= low && tick <= high) ticks.push(tick);
      }
    }
    return ticks;
  };
  const wanted = narrow ? 6 : 12;
  const choices = [[1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9], [1, 1.5, 2, 3, 4, 5, 7], [1, 2, 5], [1, 3], [1]].map(fits);
  const ticks = choices.find((ticks) => ticks.length <= wanted) || choices[choices.length - 1];
  const made = axis(look, { type: "value", min: low, max: high, name });
  made.axisLabel = { ...made.axisLabel, customValues: ticks, formatter: (v) => plain(10 ** v) };
  made.axisTick = { ...made.axisTick, customValues: ticks };
  made.splitLine = { ...made.splitLine, customValues: ticks };
  return made;
}

const logOf = (value) => (value > 0 ? Math.log10(value) : null);

// A tooltip: a heading and lines of [marker, name, value].
function tip(heading, lines) {
  const rows = lines.map(
    ([marker, name, value]) =>
      `<tr><td style="padding:0 .6em 0 0;border:0;white-space:normal">${marker || ""}<bdi>${escapeHtml(name)}</bdi></td>` +
      `<td style="padding:0;border:0;text-align:right">${escapeHtml(value)}</td></tr>`,
  );
  return `<b><bdi>${escapeHtml(heading)}</bdi></b><table>${rows.join("")}</table>`;
}

const dot = (colour) =>
  `<span style="display:inline-block;width:.7em;height:.7em;border-radius:2px;margin-right:.4em;background:${colour}"></span>`;

// A legend that only explains; its height is not known to the chart's grid, so it is estimated.
function legend(look, names, width) {
  let rows = 1;
  let used = 0;
  for (const name of names) {
    const size = name.length * 7.2 + 46;
    if (used + size > width && used > 0) {
      rows += 1;
      used = 0;
    }
    used += size;
  }
  const entry = {
    data: names,
    top: 0,
    left: 0,
    selectedMode: false,
    itemWidth: 22,
    itemHeight: 12,
    itemGap: 14,
    textStyle: { color: look.ink, fontSize: 12 },
  };
  return [entry, rows * 24 + 6];
}
