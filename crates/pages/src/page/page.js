(() => {
  'use strict';
  const data = JSON.parse(document.getElementById('charts').textContent);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const live = [];
  const short = (v, digits) => Number(v.toPrecision(digits)).toLocaleString('en-US', { maximumSignificantDigits: 6 });
  const nines = (t) => 1 - 10 ** -t;
  // A value of an axis, from where it lies on the axis.
  const value = (axis, v) => (axis.scale === 'category' ? axis.names[v] : axis.scale === 'nines' ? nines(v) : v);
  const percent = (p) => Number((100 * p).toFixed(7)).toString();
  const text = (axis, v, digits) => {
    if (v == null) return '–';
    if (axis.scale === 'category') return axis.names[v] == null ? '' : String(axis.names[v]);
    if (axis.scale === 'nines') return percent(nines(v));
    return short(v / axis.divide, digits);
  };
  const full = (axis, v) => text(axis, v, 5) + (v != null && axis.unit ? '\u00a0' + axis.unit : '');
  const mark = (number, x, y, r, path) => {
    const shape = data.shapes[(number + Math.floor(number / 8)) % 8];
    if (!shape.length) {
      path.moveTo(x + r, y);
      path.arc(x, y, r, 0, 2 * Math.PI);
      return;
    }
    shape.forEach(([dx, dy], i) => (i ? path.lineTo(x + dx * r, y + dy * r) : path.moveTo(x + dx * r, y + dy * r)));
    path.closePath();
  };
  const points = (series) => (u, index, from, to) => {
    const [xs, ys] = [u.data[0], u.data[index]];
    const known = [];
    for (let i = from; i <= to; i++) if (ys[i] != null) known.push(i);
    const step = series.kind === 'points' || known.length <= 40 ? 1 : Math.ceil(known.length / 14);
    const path = new Path2D();
    for (let i = 0; i < known.length; i += step) {
      const [x, y] = [u.valToPos(xs[known[i]], 'x', true), u.valToPos(ys[known[i]], 'y', true)];
      mark(series.rank, x, y, 3.6 * devicePixelRatio, path);
    }
    return { fill: path, stroke: path, clip: null, band: null, gaps: null, flags: 3 };
  };
  const axis = (of, side) => ({
    stroke: () => css('--ink'),
    grid: { stroke: () => css('--grid'), width: 1 },
    ticks: { stroke: () => css('--frame'), width: 1, size: 5 },
    font: '12px ' + getComputedStyle(document.body).fontFamily,
    labelFont: '12px ' + getComputedStyle(document.body).fontFamily,
    label: of.label,
    labelSize: 20,
    size: side ? (u, all) => 16 + Math.max(20, ...(all || []).map((t) => (t || '').length * 7.2)) : 34,
    space: side ? 32 : 64,
    splits:
      of.scale === 'category' || of.scale === 'nines'
        ? (u, i, low, high) => {
            const all = [];
            for (let v = Math.ceil(low); v <= high; v++) all.push(v);
            return all;
          }
        : of.scale === 'log'
          ? undefined
          : (u, i, low, high, step) => {
              // Round numbers of the unit that is shown.
              const all = [];
              const room = side ? u.bbox.height : u.bbox.width;
              const most = Math.max(2, Math.floor(room / devicePixelRatio / (side ? 40 : 70)));
              const rough = (high - low) / of.divide / most;
              const power = 10 ** Math.floor(Math.log10(rough));
              const nice = [1, 2, 5, 10].map((d) => d * power).find((d) => d >= rough * 0.999);
              const size = (of.whole && high - low >= 1 ? Math.max(nice, 1) : nice) * of.divide;
              const first = Math.ceil(low / size - 1e-9);
              for (let n = first; n * size <= high * (1 + 1e-9) + 1e-300; n++) all.push(n * size);
              return all;
            },
    values: (u, all) => all.map((v) => (v == null ? '' : text(of, v, 6))),
  });
  const size = (box) => [box.clientWidth, box.clientWidth < 500 ? 280 : 360];
  const draw = (chart) => {
    const figure = document.getElementById('chart-' + chart.id);
    const box = figure.querySelector('.live');
    figure.classList.add('on');
    const [width, height] = size(box);
    const scale = (of, range) => ({
      time: false,
      distr: of.scale === 'log' ? 3 : 1,
      range: of.scale === 'log' ? undefined : range,
    });
    // All of it has the range of the static picture; a part is where the user has zoomed to.
    const part = (u, low, high) => {
      const xs = u.data[0];
      return low <= xs[0] && high >= xs[xs.length - 1] ? [chart.x.from, chart.x.to] : [low, high];
    };
    const u = new uPlot(
      {
        width,
        height,
        cursor: { drag: { x: true, y: false }, points: { size: 7 } },
        // Without a place to read there are no values, rather than dashes in their stead.
        hooks: { setCursor: [(u) => box.classList.toggle('pointed', u.cursor.idx != null)] },
        scales: {
          x: scale(chart.x, part),
          y: scale(chart.y, () => [chart.y.from, chart.y.to]),
        },
        axes: [axis(chart.x, 0), axis(chart.y, 3)],
        series: [
          { label: chart.x.name, value: (u, v) => full(chart.x, v) },
          ...chart.series.map((s) => ({
            label: s.name,
            stroke: s.colour,
            fill: undefined,
            width: s.kind === 'points' ? 0 : 1.8,
            paths: s.kind === 'points' ? () => null : undefined,
            dash: s.dashes,
            points: {
              show: s.kind !== 'reference',
              paths: points(s),
              fill: s.colour,
              stroke: s.colour,
              width: 0,
            },
            value: (u, v) => full(chart.y, v),
          })),
        ],
      },
      uPlot.join(chart.series.map((s) => [s.x, s.y])),
      box,
    );
    box.querySelectorAll('.u-legend .u-series').forEach((row, i) => {
      const marker = row.querySelector('.u-marker');
      if (!i || !marker) return;
      const s = chart.series[i - 1];
      const canvas = document.createElement('canvas');
      [canvas.width, canvas.height] = [52, 28];
      [canvas.style.width, canvas.style.height] = ['26px', '14px'];
      const pen = canvas.getContext('2d');
      pen.strokeStyle = pen.fillStyle = s.colour;
      pen.lineWidth = 3.6;
      pen.setLineDash((s.dashes || []).map((d) => 2 * d));
      const path = new Path2D();
      if (s.kind !== 'points') {
        path.moveTo(0, 14);
        path.lineTo(52, 14);
        pen.stroke(path);
      }
      if (s.kind !== 'reference') {
        const shape = new Path2D();
        mark(s.rank, 26, 14, 7.2, shape);
        pen.fill(shape);
      }
      marker.style.border = '0';
      marker.style.background = 'none';
      marker.replaceChildren(canvas);
    });
    live.push([u, box]);
  };
  for (const chart of data.charts) {
    try {
      draw(chart);
    } catch (error) {
      // The static picture stays.
      document.getElementById('chart-' + chart.id).classList.remove('on');
      console.error(error);
    }
  }
  let due = 0;
  addEventListener('resize', () => {
    cancelAnimationFrame(due);
    due = requestAnimationFrame(() => {
      for (const [u, box] of live) {
        const [width, height] = size(box);
        if (width > 0 && width !== u.width) u.setSize({ width, height });
      }
    });
  });
  dark.addEventListener('change', () => live.forEach(([u]) => u.redraw(false, true)));
  addEventListener('beforeprint', () => document.querySelectorAll('details:not(.values)').forEach((d) => (d.open = true)));
})();
