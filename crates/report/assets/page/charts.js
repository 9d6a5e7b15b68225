// One function per kind of picture. Each gets the picture's data and what is chosen, and returns the chart's option, its
// height in pixels, and the stops of the arrow keys.
//
// `chosen` has: look (theme), shown (whether each policy is), names (of the policies), width, narrow, choice (by key).

const shown = (rows, chosen) => rows.filter((row) => chosen.shown[row.policy]);
const rowHeight = (count) => Math.max(count, 1) * 30;

function policyAxis(rows, chosen) {
  const names = rows.map((row) => chosen.names[row.policy]);
  return axis(chosen.look, {
    type: "category",
    inverse: true,
    data: names,
    splitLine: { show: false },
    axisLabel: { color: chosen.look.ink, fontSize: 12, width: chosen.narrow ? 110 : 240, overflow: "truncate", interval: 0 },
  });
}

// What a question allows: a line at each limit, and shade over what is allowed. `axis` is the axis of the metric, `at` turns a
// value into a place on it, and `range` has the ends of that axis. `above` is the upper end of a vertical line: the start where
// the other axis goes down.
function limitMarks(limits, axis, at, range, look, above = "end") {
  if (!limits || !limits.length) return {};
  const key = axis === "x" ? "xAxis" : "yAxis";
  const lower = Math.max(range[0], ...limits.filter((l) => !l.upper).map((l) => at(l.value)));
  const upper = Math.min(range[1], ...limits.filter((l) => l.upper).map((l) => at(l.value)));
  const area = lower < upper ? [[{ [key]: lower }, { [key]: upper }]] : [];
  const inside = limits.filter((l) => at(l.value) >= range[0] && at(l.value) <= range[1]);
  return {
    markArea: { silent: true, itemStyle: { color: look.better, opacity: 0.09 }, data: area },
    markLine: {
      silent: true, symbol: "none", animation: false, lineStyle: { color: look.worse, type: [6, 4], width: 1.5 },
      // Above a chart the text must not leave it at the right.
      data: inside.map((l) => {
        const place = (at(l.value) - range[0]) / (range[1] - range[0]);
        const beside = axis === "x" ? { position: above, distance: 3, align: place > 0.7 ? "right" : place < 0.3 ? "left" : "center" } : { position: "insideEndTop" };
        return { [key]: at(l.value), label: { ...beside, color: look.worse, fontSize: 11, formatter: () => l.text } };
      }),
    },
  };
}

// Ends of an axis that shows these values and these limits, if a limit is not far beyond the values.
function withLimits(values, limits) {
  const numbers = values.filter((v) => v !== null && Number.isFinite(v));
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  return numbers.concat((limits || []).map((l) => l.value).filter((v) => v > 0 && v > low / 4 && v < high * 4));
}

const charts = {
  distribution(data, chosen) {
    const { look } = chosen;
    const series = shown(data.series, chosen);
    const tail = chosen.choice.view === "tail";
    const height = (slower) => (tail ? -Math.log10(Math.max(slower, 1e-9)) : (1 - slower) * 100);
    const xs = withLimits(series.flatMap((s) => s.points.map((p) => p[0])), data.limits);
    // The tail ends where the last request is the only one that is slower.
    const least = Math.min(...series.flatMap((s) => s.points.map((p) => p[1]).filter((v) => v > 0)), 0.01);
    const top = tail ? Math.ceil(-Math.log10(least)) : 100;
    const ticks = Array.from({ length: top + 1 }, (_, i) => i);
    const option = base(look);
    if (data.limits.length) option.grid.top = 24;
    option.xAxis = logAxis(look, xs, `${data.of}, us`, chosen.narrow);
    option.yAxis = axis(look, { type: "value", min: 0, max: top, name: "% of requests", nameGap: 40 });
    option.yAxis.axisLabel.formatter = (v) => (tail ? `${+(100 - 100 * 10 ** -v).toFixed(6)}` : `${v}`);
    if (tail) {
      option.yAxis.interval = 1;
      option.yAxis.axisLabel.customValues = ticks;
    }
    const drawn = series.map((s) => s.points.map(([x, slower]) => [logOf(x), height(slower)]).filter((p) => !tail || p[1] <= top));
    option.series = series.map((s, i) => {
      const { colour, dash } = policyLook(s.policy, look);
      return {
        type: "line", name: chosen.names[s.policy], data: drawn[i], step: "start", symbol: "none",
        lineStyle: { color: colour, width: 2.25, type: dash }, itemStyle: { color: colour }, emphasis: { disabled: true },
      };
    });
    if (option.series.length) {
      Object.assign(option.series[0], limitMarks(data.limits, "x", logOf, [option.xAxis.min, option.xAxis.max], look));
    }
    // Symbols at a few shares tell the lines apart without colour.
    const marks = tail ? ticks.slice(1).map((t) => 10 ** -t) : [0.9, 0.7, 0.5, 0.3, 0.1, 0.01];
    series.forEach((s) => {
      const { colour, symbol } = policyLook(s.policy, look);
      const at = marks.map((slower) => s.points.find((p) => p[1] <= slower + 1e-12)).filter(Boolean);
      option.series.push({
        type: "scatter", data: at.map(([x, slower]) => [logOf(x), height(slower)]).filter((p) => p[1] <= top), symbol, symbolSize: 9,
        itemStyle: { color: look.paper, borderColor: colour, borderWidth: 2 }, silent: true, tooltip: { show: false },
      });
    });
    const slowerAt = (points, us) => {
      let last = 1;
      for (const [x, slower] of points) {
        if (x > us * (1 + 1e-9)) break;
        last = slower;
      }
      return last;
    };
    option.tooltip = {
      ...option.tooltip, trigger: "axis", axisPointer: { type: "line", snap: false, label: { show: false } },
      formatter: (all) => {
        const us = 10 ** all[0].axisValue;
        return tip(`at most ${short(us)} us`, series.map((s) => [
          dot(policyLook(s.policy, look).colour), chosen.names[s.policy],
          `${+(100 * (1 - slowerAt(s.points, us))).toFixed(4)} %`,
        ]));
      },
    };
    // The arrow keys go through the marked shares of the first line.
    const stops = series.length ? drawn[0].map((_, i) => i).filter((i) => i % Math.ceil(drawn[0].length / 40) === 0) : [];
    return { option, height: chosen.narrow ? 320 : 420, stops: stops.map((dataIndex) => ({ seriesIndex: 0, dataIndex })) };
  },

  percentiles(data, chosen) {
    const { look } = chosen;
    const rows = shown(data.rows, chosen);
    const option = base(look);
    const all = withLimits(rows.flatMap((r) => r.values.flatMap((v) => v || [])), data.limits);
    const [entry, below] = legend(look, data.names, chosen.width);
    const top = below + (data.limits.length ? 16 : 0);
    option.legend = entry;
    option.grid.top = top;
    option.xAxis = logAxis(look, all, `${data.of}, us`, chosen.narrow);
    option.yAxis = policyAxis(rows, chosen);
    const colours = ramp(data.names.length + 1, look, "grey").slice(1);
    const allowed = limitMarks(data.limits, "x", logOf, [option.xAxis.min, option.xAxis.max], look, "start");
    option.series = [{
      type: "custom", silent: true, z: 1, ...allowed, tooltip: { show: false },
      data: rows.map((r, i) => [i, ...r.values.filter(Boolean).map((v) => logOf(v[0]))]),
      renderItem: (_, api) => {
        const row = rows[api.value(0)].values.filter(Boolean);
        const at = (us) => api.coord([logOf(us), api.value(0)]);
        const line = (from, to, width, stroke) => {
          const [[x1, y], [x2]] = [at(from), at(to)];
          return { type: "line", shape: { x1, y1: y, x2, y2: y }, style: { stroke, lineWidth: width } };
        };
        if (!row.length) return null;
        const ends = row.map((v) => v[0]);
        return {
          type: "group",
          children: [
            line(Math.min(...ends), Math.max(...ends), 1, look.line),
            ...row.map((v) => line(v[1], v[2], 3, look.quiet)),
          ],
        };
      },
    }];
    data.names.forEach((name, k) => {
      option.series.push({
        type: "scatter", name, symbol: SYMBOLS[k % SYMBOLS.length], symbolSize: 13, z: 3,
        itemStyle: { color: colours[k], borderColor: look.ink, borderWidth: 1 },
        data: rows.map((r, i) => (r.values[k] ? [logOf(r.values[k][0]), i] : [null, i])),
      });
    });
    option.tooltip.formatter = (p) => {
      const row = rows[p.dataIndex];
      return tip(chosen.names[row.policy], data.names.map((name, k) => {
        const v = row.values[k];
        return ["", name, v ? `${short(v[0])} us (${short(v[1])} to ${short(v[2])})` : "–"];
      }));
    };
    return { option, height: top + 60 + rowHeight(rows.length), stops: rows.map((_, dataIndex) => ({ seriesIndex: 1, dataIndex })) };
  },

  // The mean and each percentile have a grid of their own, beside each other, on a phone one below the other.
  parts(data, chosen) {
    const { look } = chosen;
    const option = base(look);
    const share = chosen.choice.unit === "share";
    const at = data.at.map((name, index) => ({ name, index })).filter((a) => ["mean", "p99"].includes(a.name) || data.at.length < 3);
    const [entry, top] = legend(look, data.names, chosen.width);
    option.legend = entry;
    const colours = data.names.map((part) => colourOf(part, look));
    const groups = at.map((a) => shown(data.rows, chosen).filter((r) => r.at === a.index));
    const tall = 44 + rowHeight(Math.max(...groups.map((g) => g.length), 1));
    const stacked = chosen.narrow || at.length < 2;
    // Rows have their names only once where the panels stand beside each other.
    const name = Math.min(220, 12 + 6.6 * Math.max(...chosen.names.map((n) => n.length)));
    const each = stacked ? chosen.width : (chosen.width - name - 30) / at.length;
    option.grid = at.map((_, i) => ({
      left: stacked ? 8 : 8 + (i ? name + i * each + 16 : 0),
      width: stacked ? chosen.width - 40 : each - 26 + (i ? 0 : name),
      top: top + 26 + (stacked ? i * (tall + 34) : 0), height: tall,
      outerBoundsMode: "same", outerBoundsContain: "all",
    }));
    option.title = at.map((a, i) => ({
      text: `${a.name === "mean" ? "Mean of all requests" : `Requests about ${a.name}`}`,
      left: stacked ? 8 : i ? 8 + name + i * each + 16 : 8, top: option.grid[i].top - 24,
      textStyle: { color: look.ink, fontSize: 13, fontWeight: 600, fontFamily: look.font },
    }));
    option.xAxis = at.map((_, i) => axis(look, { type: "value", gridIndex: i, min: 0, max: share ? 100 : null, name: share ? "%" : "us", splitNumber: chosen.narrow ? 3 : 5 }));
    option.yAxis = groups.map((rows, i) => {
      const made = { ...policyAxis(rows, chosen), gridIndex: i };
      if (i && !stacked) made.axisLabel = { show: false };
      return made;
    });
    const total = (row) => row.values.reduce((sum, v) => sum + (v || 0), 0);
    const value = (row, v) => (v === null ? null : share ? (100 * v) / (total(row) || 1) : v);
    option.series = groups.flatMap((rows, i) => data.names.map((part, k) => ({
      type: "bar", name: part, stack: `at${i}`, xAxisIndex: i, yAxisIndex: i, barCategoryGap: "25%",
      itemStyle: { color: colours[k], borderColor: look.paper, borderWidth: 0.5, decal: DECALS[k % DECALS.length] },
      cursor: data.timelines ? "pointer" : "default", emphasis: { disabled: true }, data: rows.map((row) => value(row, row.values[k])),
    })));
    option.tooltip.formatter = (p) => {
      const row = groups[Math.floor(p.seriesIndex / data.names.length)][p.dataIndex];
      const lines = data.names.map((part, k) => [
        dot(colours[k]), part,
        `${short(row.values[k])} us, ${(100 * row.values[k] / (total(row) || 1)).toFixed(1)} %`,
      ]);
      return tip(`${chosen.names[row.policy]}, ${data.at[row.at]}: ${short(total(row))} us`, lines);
    };
    const stops = groups.flatMap((rows, i) => rows.map((_, dataIndex) => ({ seriesIndex: i * data.names.length, dataIndex })));
    const target = ({ seriesIndex, dataIndex }) => {
      const row = groups[Math.floor(seriesIndex / data.names.length)][dataIndex];
      return row && { policy: row.policy, at: data.at[row.at] };
    };
    return { option, height: top + 26 + (stacked ? at.length * (tall + 34) : tall + 20), stops, target };
  },

  tradeoff(data, chosen) {
    const { look } = chosen;
    const option = base(look);
    const metric = data.metrics[Number(chosen.choice.metric || 0)];
    // Policies with equal figures are one point with all names.
    const points = [];
    for (const point of shown(metric.points, chosen)) {
      const equal = points.find((p) => p.x[0] === point.x[0] && p.y[0] === point.y[0]);
      if (equal) {
        equal.policies.push(point.policy);
        if (point.winner) Object.assign(equal, { winner: true });
      } else points.push({ ...point, policies: [point.policy] });
    }
    const namesOf = (point) => point.policies.map((policy) => chosen.names[policy]).join(", ");
    option.grid.top = 24;
    option.grid.right = 30;
    option.xAxis = logAxis(look, withLimits(points.flatMap((p) => p.x), metric.limits), metric.title, chosen.narrow);
    option.yAxis = axis(look, { type: "value", scale: true, name: data.y, nameGap: 44 });
    const values = withLimits(points.flatMap((p) => p.y), data.limits);
    const room = Math.max((Math.max(...values) - Math.min(...values)) * 0.12, Math.abs(values[0] || 1) * 0.01);
    option.yAxis.min = Math.max(0, Math.min(...values) - room);
    option.yAxis.max = Math.max(...values) + room;
    option.yAxis.axisLabel.formatter = (v) => plain(Number(v.toPrecision(4)));
    option.yAxis.axisLabel.showMinLabel = false;
    option.yAxis.axisLabel.showMaxLabel = false;
    const logs = points.map((p) => logOf(p.x[0]));
    const atTheEdge = (p) => logOf(p.x[0]) > Math.min(...logs) * 0.2 + Math.max(...logs) * 0.8;
    const front = points.filter((p) => p.front).sort((a, b) => a.x[0] - b.x[0]);
    option.series = [
      {
        type: "line", data: front.map((p) => [logOf(p.x[0]), p.y[0]]), step: "end", symbol: "none", silent: true,
        ...limitMarks(metric.limits, "x", logOf, [option.xAxis.min, option.xAxis.max], look),
        lineStyle: { color: look.quiet, width: 1.5, type: [4, 4] }, tooltip: { show: false }, z: 1,
      },
      {
        type: "custom", silent: true, z: 1, tooltip: { show: false }, data: points.map((p) => [logOf(p.x[0]), p.y[0]]),
        renderItem: (item, api) => {
          const { x, y, policy } = points[item.dataIndex];
          const line = (from, to) => {
            const [[x1, y1], [x2, y2]] = [api.coord(from), api.coord(to)];
            return { type: "line", shape: { x1, y1, x2, y2 }, style: { stroke: policyLook(policy, look).colour, lineWidth: 1.25 } };
          };
          return {
            type: "group",
            children: [line([logOf(x[1]), y[0]], [logOf(x[2]), y[0]]), line([logOf(x[0]), y[1]], [logOf(x[0]), y[2]])],
          };
        },
      },
      {
        type: "scatter", z: 3, symbolSize: 15, ...limitMarks(data.limits, "y", (v) => v, [option.yAxis.min, option.yAxis.max], look),
        data: points.map((p) => {
          const { colour, symbol } = policyLook(p.policy, look);
          return {
            value: [logOf(p.x[0]), p.y[0]], symbol, itemStyle: { color: p.front ? colour : look.paper, borderColor: colour, borderWidth: 2 },
            // Above or below the point, so that the front does not cross it, and not beyond the edge of the chart.
            label: atTheEdge(p)
              ? { position: [-2, 17], align: "right", verticalAlign: "top" }
              : { position: [17, -2], align: "left", verticalAlign: "bottom" },
          };
        }),
        label: {
          show: true, color: look.ink, fontSize: 12, width: chosen.narrow ? 120 : 260, overflow: "truncate",
          formatter: (p) => namesOf(points[p.dataIndex]),
        },
        labelLayout: { moveOverlap: "shiftY", hideOverlap: true },
      },
      {
        type: "scatter", z: 2, silent: true, symbolSize: 27, tooltip: { show: false }, data: points.filter((p) => p.winner).map((p) => [logOf(p.x[0]), p.y[0]]),
        symbol: "circle", itemStyle: { color: "transparent", borderColor: look.better, borderWidth: 2.5 },
      },
    ];
    option.tooltip.formatter = (p) => {
      const point = points[p.dataIndex];
      const text = (v) => `${short(v[0])} (${short(v[1])} to ${short(v[2])})`;
      return tip(namesOf(point), [["", metric.title, text(point.x)], ["", data.y, text(point.y)], ["", "on the Pareto front", point.front ? "yes" : "no"]]);
    };
    return { option, height: chosen.narrow ? 340 : 400, stops: points.map((_, dataIndex) => ({ seriesIndex: 2, dataIndex })) };
  },

  load(data, chosen) {
    const { look } = chosen;
    const option = base(look);
    const index = Number(chosen.choice.metric ?? data.first);
    const metric = data.metrics.find((m) => m.index === index);
    const series = data.series[Number(chosen.choice.series || 0)];
    const lines = shown(series.lines, chosen).filter((line) => line.metric === index);
    const values = withLimits(lines.flatMap((line) => line.means), metric.limits);
    const [low, high] = values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];
    const room = Math.max((high - low) * 0.08, Math.abs(high) * 0.01);
    const [entry, top] = legend(look, lines.map((line) => chosen.names[line.policy]), chosen.width);
    option.legend = { ...entry, itemWidth: 30 };
    option.grid.top = top + 14;
    option.xAxis = logAxis(look, series.rates, series.unit, chosen.narrow);
    option.yAxis = axis(look, { type: "value", name: metric.title, nameGap: 52, min: Math.min(Math.max(low - room, 0), low), max: high + room });
    option.yAxis.axisLabel.formatter = (v) => plain(Number(v.toPrecision(4)));
    option.yAxis.axisLabel.showMinLabel = false;
    option.yAxis.axisLabel.showMaxLabel = false;
    option.series = lines.map((line, i) => {
      const { colour, dash, symbol } = policyLook(line.policy, look);
      return {
        type: "line", name: chosen.names[line.policy], symbol, symbolSize: 9, connectNulls: false, emphasis: { disabled: true },
        data: line.means.map((mean, k) => [logOf(series.rates[k]), mean]), lineStyle: { color: colour, width: 2.25, type: dash },
        itemStyle: { color: look.paper, borderColor: colour, borderWidth: 2 },
        ...(i ? {} : limitMarks(metric.limits, "y", (v) => v, [option.yAxis.min, option.yAxis.max], look)),
      };
    });
    option.tooltip = {
      ...option.tooltip, trigger: "axis", axisPointer: { type: "line", label: { show: false } },
      formatter: (all) => {
        const at = all[0].dataIndex;
        return tip(`${short(series.rates[at])} ${series.unit}`, lines.map((line) => [
          dot(policyLook(line.policy, look).colour), chosen.names[line.policy], `${short(line.means[at])}`,
        ]));
      },
    };
    return { option, height: top + (chosen.narrow ? 320 : 380), stops: series.rates.map((_, dataIndex) => ({ seriesIndex: 0, dataIndex })) };
  },

  residency(data, chosen) {
    const { look } = chosen;
    const option = base(look);
    const kind = data.kinds[Number(chosen.choice.kind || 0)];
    const rows = shown(kind.rows, chosen);
    const [entry, top] = legend(look, kind.states, chosen.width);
    option.legend = entry;
    option.grid.top = top;
    const colours = kind.states.map((state) => colourOf(state, look));
    option.xAxis = axis(look, { type: "value", min: 0, max: 100, name: "% of CPU time" });
    option.yAxis = policyAxis(rows, chosen);
    option.series = kind.states.map((state, k) => ({
      type: "bar", stack: "time", name: state, barCategoryGap: "25%", emphasis: { disabled: true },
      itemStyle: { color: colours[k], borderColor: look.paper, borderWidth: 0.5, decal: kind.busy[k] ? DECALS[1] : DECALS[0] },
      data: rows.map((row) => row.values[k]),
    }));
    option.tooltip.formatter = (p) => {
      const row = rows[p.dataIndex];
      return tip(chosen.names[row.policy], kind.states.map((state, k) => [dot(colours[k]), state, `${row.values[k] === null ? "–" : row.values[k].toFixed(2)} %`]));
    };
    return { option, height: top + 60 + rowHeight(rows.length), stops: rows.map((_, dataIndex) => ({ seriesIndex: 0, dataIndex })) };
  },

  misfits(data, chosen) {
    const { look } = chosen;
    const option = base(look);
    const kind = data.kinds[Number(chosen.choice.kind || 0)];
    const rows = shown(kind.rows, chosen);
    // Three panels over the same rows: how often, and what it costs in time and in power.
    const panels = [
      { title: "Stays per s: too deep ◂ ▸ too shallow", series: [["too deep", 1, -1], ["too shallow", 2, 1]], room: 0.46 },
      { title: "Added latency, us per s", series: [["added latency", 3, 1]], room: 0.27 },
      { title: `Wasted power, ${data.power}`, series: [["wasted power", 4, 1]], room: 0.27 },
    ];
    const tall = 30 + rowHeight(rows.length);
    const name = Math.min(chosen.narrow ? 120 : 230, 14 + 6.6 * Math.max(...chosen.names.map((n) => n.length)));
    let left = name;
    option.grid = panels.map((panel, i) => {
      const width = chosen.narrow ? chosen.width - name - 24 : (chosen.width - name) * panel.room - 28;
      const at = { left: chosen.narrow ? name : left, width, top: 28 + (chosen.narrow ? i * (tall + 40) : 0), height: tall, outerBoundsMode: "none" };
      left += (chosen.width - name) * panel.room;
      return at;
    });
    option.title = panels.map((panel, i) => ({
      text: panel.title, left: chosen.narrow ? 0 : option.grid[i].left, top: option.grid[i].top - 26,
      textStyle: { color: look.ink, fontSize: 13, fontWeight: 600, fontFamily: look.font },
    }));
    option.xAxis = panels.map((_, i) => {
      const made = axis(look, { type: "value", gridIndex: i, splitNumber: 3 });
      // The panels are close to each other.
      Object.assign(made.axisLabel, { alignMinLabel: "left", alignMaxLabel: "right" });
      made.axisLabel.formatter = (v) => plain(Math.abs(v));
      return made;
    });
    option.yAxis = panels.map((_, i) => {
      const made = { ...policyAxis(rows, chosen), gridIndex: i };
      made.axisLine = { show: true, onZero: true, lineStyle: { color: look.quiet } };
      if (i && !chosen.narrow) made.axisLabel = { show: false };
      else made.axisLabel = { ...made.axisLabel, width: name - 10 };
      return made;
    });
    // Beside the panel, not beside its zero.
    option.yAxis[0].axisLine.onZero = false;
    option.series = panels.flatMap((panel, i) => panel.series.map(([label, field, sign]) => ({
      type: "bar", name: label, stack: `panel${i}`, xAxisIndex: i, yAxisIndex: i, barCategoryGap: "30%", emphasis: { disabled: true },
      itemStyle: { color: colourOf(label, look), decal: DECALS[label === "too shallow" ? 0 : 1] },
      data: rows.map((row) => (row.sums[field] === null ? null : sign * row.sums[field])),
    })));
    option.tooltip.formatter = (p) => {
      const row = rows[p.dataIndex];
      const [entries, deep, shallow, added, wasted] = row.sums;
      const share = (v) => `${short(v)} per s, ${((100 * v) / (entries || 1)).toFixed(1)} %`;
      return tip(chosen.names[row.policy], [
        ["", "idle periods", `${short(entries)} per s`], ["", "too deep", share(deep)], ["", "too shallow", share(shallow)],
        ["", "added latency", `${short(added)} us per s`], ["", "wasted power", `${short(wasted)} ${data.power}`],
      ]);
    };
    return {
      option, height: 28 + (chosen.narrow ? 3 * (tall + 40) : tall + 34),
      stops: rows.map((_, dataIndex) => ({ seriesIndex: 0, dataIndex })),
    };
  },

  frequencies(data, chosen) {
    const { look } = chosen;
    const option = base(look);
    const kind = data.kinds[Number(chosen.choice.kind || 0)];
    const rows = shown(kind.rows, chosen);
    option.xAxis = axis(look, { type: "category", data: kind.mhz.map((m) => plain(m)), name: "MHz", splitLine: { show: false } });
    option.yAxis = axis(look, { type: "value", min: 0, name: "% of powered time", nameGap: 40 });
    option.series = rows.map((row) => {
      const { colour, decal } = policyLook(row.policy, look);
      return {
        type: "bar", name: chosen.names[row.policy], data: row.values, emphasis: { disabled: true }, barCategoryGap: "20%", barGap: "8%",
        itemStyle: { color: colour, decal },
      };
    });
    option.tooltip = {
      ...option.tooltip, trigger: "axis", axisPointer: { type: "shadow" },
      formatter: (all) => tip(`${all[0].name} MHz`, rows.map((row) => [
        dot(policyLook(row.policy, look).colour), chosen.names[row.policy], `${row.values[all[0].dataIndex].toFixed(2)} %`,
      ])),
    };
    return { option, height: 320, stops: kind.mhz.map((_, dataIndex) => ({ seriesIndex: 0, dataIndex })) };
  },

  gains(data, chosen) {
    const { look } = chosen;
    const option = base(look);
    const metric = Number(chosen.choice.metric ?? data.first);
    const rows = shown(data.rows, chosen).filter((r) => r.metric === metric);
    rows.sort((a, b) => a.workload - b.workload || a.policy - b.policy);
    const ends = rows.flatMap((r) => [r.gain, ...(r.interval || [])]).filter((v) => v !== null);
    const first = (i) => i === 0 || rows[i].workload !== rows[i - 1].workload;
    // A workload's name has a line of its own above its policies.
    const lines = rows.flatMap((row, i) => (first(i) ? [{ title: data.workloads[row.workload] }, row] : [row]));
    const room = Math.max((Math.max(...ends, 0) - Math.min(...ends, 0)) * 0.06, 0.5);
    option.xAxis = axis(look, { type: "value", name: "gain, %: better to the right", min: Math.min(...ends, 0) - room, max: Math.max(...ends, 0) + room });
    option.xAxis.axisLabel.formatter = (v) => (v > 0 ? "+" : "") + plain(Number(v.toPrecision(3)));
    option.xAxis.axisLabel.showMinLabel = false;
    option.xAxis.axisLabel.showMaxLabel = false;
    const label = (line) => (line.title ? `{block|${line.title}}` : `${line.policy === data.winner ? "◎ " : ""}${chosen.names[line.policy]}`).replace(/\n/g, " ");
    option.yAxis = axis(look, {
      type: "category", inverse: true, data: lines.map((_, i) => i), splitLine: { show: false },
      axisLabel: {
        color: look.ink, fontSize: 12, interval: 0, width: chosen.narrow ? 120 : 260, overflow: "truncate",
        formatter: (_, i) => label(lines[i]), rich: { block: { fontWeight: 650, color: look.quiet, fontSize: 12 } },
      },
    });
    option.series = [{
      type: "custom", z: 3, markLine: { silent: true, symbol: "none", label: { show: false }, lineStyle: { color: look.ink, type: "solid", width: 1.25 }, data: [{ xAxis: 0 }] },
      data: lines.map((line, i) => (line.title ? ["-", i] : [line.gain, i])),
      renderItem: (item, api) => {
        const line = lines[item.dataIndex];
        if (line.title || line.gain === null) return null;
        const { colour } = policyLook(line.policy, look);
        const [x, y] = api.coord([line.gain, item.dataIndex]);
        const children = [];
        if (line.interval) {
          const [x1] = api.coord([line.interval[0], item.dataIndex]);
          const [x2] = api.coord([line.interval[1], item.dataIndex]);
          children.push({ type: "line", shape: { x1, y1: y, x2, y2: y }, style: { stroke: colour, lineWidth: 3 } });
        }
        children.push({ type: "circle", shape: { cx: x, cy: y, r: 6 }, style: { fill: line.significant ? colour : look.paper, stroke: colour, lineWidth: 2 } });
        return { type: "group", children };
      },
    }];
    option.tooltip.formatter = (p) => {
      const line = lines[p.dataIndex];
      const sign = (v) => `${v > 0 ? "+" : ""}${short(v)} %`;
      return tip(`${chosen.names[line.policy]}, ${data.workloads[line.workload]}`, [
        ["", "gain", sign(line.gain)], ["", "interval", line.interval ? line.interval.map(sign).join(" to ") : "–"], ["", line.verdict, ""],
      ]);
    };
    const stops = lines.map((line, dataIndex) => ({ seriesIndex: 0, dataIndex, skip: Boolean(line.title) })).filter((s) => !s.skip);
    return { option, height: 60 + lines.length * 24, stops };
  },
};
