// Numbers as people read them, and the charts.
'use strict';
const live = {};
live.digits = (v) => (v === 0 ? '0' : Number(v.toPrecision(4)).toLocaleString('en-US', { maximumFractionDigits: 6 }));
live.scaled = (v, units) => {
  const [size, name] = units.find(([from]) => Math.abs(v) >= from) || units[units.length - 1];
  return live.digits(v / size) + '\u00a0' + name;
};
live.rate = (v) => (v == null ? '–' : live.scaled(v, [[1e9, 'Gpps'], [1e6, 'Mpps'], [1e3, 'kpps'], [1, 'pps']]));
live.time = (v) => (v == null ? '–' : live.scaled(v, [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']]));
live.percent = (v) => (v == null ? '–' : live.digits(100 * v) + '\u00a0%');
live.count = (v) => (v == null ? '–' : v.toLocaleString('en-US'));
live.seconds = (ns) => {
  const s = Math.floor(ns / 1e9);
  const two = (n) => String(n).padStart(2, '0');
  return s < 3600 ? two(Math.floor(s / 60)) + ':' + two(s % 60)
    : Math.floor(s / 3600) + ':' + two(Math.floor((s % 3600) / 60)) + ':' + two(s % 60);
};
live.css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
// Charts of one time axis. A line: [label, colour, how it is drawn].
live.charts = [];
live.chart = (box, lines, show, log) => {
  const decade = (round, v) => 10 ** round(Math.log10(v));
  const stepped = uPlot.paths.stepped({ align: 1 });
  const bars = uPlot.paths.bars({ size: [1, 40], align: 1 });
  const height = () => (box.clientWidth < 500 ? 180 : 220);
  const font = '12px ' + getComputedStyle(document.body).fontFamily;
  const axis = (size) => ({
    stroke: () => live.css('--ink'),
    grid: { stroke: () => live.css('--grid'), width: 1 },
    ticks: { stroke: () => live.css('--frame'), width: 1, size: 4 },
    font,
    ...size,
  });
  const u = new uPlot(
    {
      width: box.clientWidth,
      height: height(),
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: { time: false },
        y: log
          ? { distr: 3, range: (_, a, b) => [decade(Math.floor, a || 1e3), decade(Math.ceil, (b || 1e6) * 1.02)] }
          : { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] },
      },
      axes: [
        axis({ values: (_, all) => all.map((v) => v + ' s'), size: 30 }),
        axis({ size: 78, space: 34, values: (_, all) => all.map((v) => (v == null ? '' : show(v))) }),
      ],
      series: [
        { label: 'time' },
        ...lines.map(([label, colour, how]) => ({
          label,
          stroke: () => live.css(colour),
          width: how === 'bars' ? 0 : 1.8,
          fill: how === 'bars' ? () => live.css(colour) : undefined,
          dash: how.startsWith('dashes') ? [7, 5] : how.startsWith('dots') ? [2, 4] : undefined,
          paths: how === 'bars' ? bars : how.endsWith('steps') ? stepped : undefined,
          points: { show: false },
        })),
      ],
    },
    [[], ...lines.map(() => [])],
    box,
  );
  // Colours are those of the page's style, so that they change with it; dashes tell lines apart without them.
  const legend = document.createElement('p');
  legend.className = 'legend';
  for (const [label, colour, how] of lines) {
    const mark = document.createElement('span');
    mark.className = 'mark ' + how;
    mark.style.borderColor = 'var(' + colour + ')';
    legend.append(mark, label);
  }
  box.append(legend);
  live.charts.push([u, box, height]);
  return u;
};
{
  let due = 0;
  addEventListener('resize', () => {
    cancelAnimationFrame(due);
    due = requestAnimationFrame(() => {
      for (const [u, box, height] of live.charts) {
        if (box.clientWidth > 0 && box.clientWidth !== u.width) u.setSize({ width: box.clientWidth, height: height() });
      }
    });
  });
  const dark = matchMedia('(prefers-color-scheme: dark)');
  dark.addEventListener('change', () => live.charts.forEach(([u]) => u.redraw(false, true)));
}
