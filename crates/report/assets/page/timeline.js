// Timelines: a row per track, a box per thing that lasts.

charts.timeline = (data, chosen) => {
  const { look } = chosen;
  const option = base(look);
  const { policy, at } = chosen.choice;
  const view = data.views.find((v) => String(v.policy) === policy && v.at === at) || data.views[0];
  // The same name has the same colour whatever is chosen, here and in other pictures.
  const colours = data.names.map((name) => colourOf(name, look));
  const colour = (name) => colours[name];
  const end = Math.max(...view.spans.map((s) => s[2] + s[3]));
  option.grid.bottom = 46;
  const used = [...new Set(view.spans.map((s) => s[1]))];
  const [entry, top] = legend(look, used.map((name) => data.names[name]), chosen.width);
  option.legend = entry;
  option.grid.top = top;
  option.xAxis = axis(look, { type: "value", min: 0, max: end, name: "us", nameGap: 22 });
  option.xAxis.axisLabel.formatter = (v) => plain(Number(v.toPrecision(5)));
  option.xAxis.axisLabel.showMaxLabel = false;
  option.yAxis = axis(look, {
    type: "category", inverse: true, data: view.tracks, splitLine: { show: true, lineStyle: { color: look.line } },
    axisLabel: { color: look.ink, fontSize: 12, interval: 0, width: chosen.narrow ? 80 : 160, overflow: "truncate" },
  });
  option.dataZoom = [{
    type: "slider", xAxisIndex: 0, height: 18, bottom: 4, showDetail: false, brushSelect: false, filterMode: "none",
    borderColor: look.line, textStyle: { color: look.quiet }, minValueSpan: 1,
  }];
  option.series = [{
    type: "custom", clip: true, encode: { x: [2, 4], y: 0 },
    data: view.spans.map((s) => [s[0], s[1], s[2], s[3], s[2] + s[3], s[4]]),
    renderItem: (item, api) => {
      const [track, name, start, length] = [0, 1, 2, 3].map((i) => api.value(i));
      const [x1, y] = api.coord([start, track]);
      const [x2] = api.coord([start + length, track]);
      const half = Math.min(api.size([0, 1])[1] * 0.36, 12);
      const area = item.coordSys;
      const shape = echarts.graphic.clipRectByRect(
        { x: x1, y: y - half, width: Math.max(x2 - x1, 1), height: 2 * half },
        { x: area.x, y: area.y, width: area.width, height: area.height },
      );
      if (!shape) return null;
      const text = data.names[name];
      const fits = shape.width > text.length * 6.2 + 8;
      return {
        type: "rect", shape,
        style: { fill: colour(name), stroke: look.paper, lineWidth: shape.width > 4 ? 0.5 : 0 },
        textContent: fits ? { style: { text, fill: inkOn(colour(name)), fontSize: 11, fontFamily: look.font } } : undefined,
        textConfig: { position: "inside" },
      };
    },
  }];
  // Only for the legend.
  option.series.push(...used.map((name) => ({ type: "bar", name: data.names[name], data: [], itemStyle: { color: colour(name) } })));
  option.tooltip.formatter = (p) => {
    const [track, name, start, length, , of] = p.value;
    return tip(data.names[name], [["", "on", data.of[of] || view.tracks[track]], ["", "from", `${short(start)} us`], ["", "for", `${short(length)} us`]]);
  };
  return { option, height: top + 76 + view.tracks.length * 30, stops: view.spans.map((_, dataIndex) => ({ seriesIndex: 0, dataIndex })), zoom: true };
};

// Black or white, whichever is easier to read on a colour.
function inkOn(hex) {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  return 0.3 * r + 0.59 * g + 0.11 * b > 140 ? "#14181d" : "#ffffff";
}
