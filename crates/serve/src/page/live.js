// Fills the page from the stream of events. Everything from the run is text (textContent), never markup.
'use strict';
(() => {
  const by = (id) => document.getElementById(id);
  const put = (id, text) => {
    const element = by(id);
    // What stays the same is not said again by a screen reader.
    if (element.textContent !== text) element.textContent = text;
  };
  const made = (name, text) => {
    const element = document.createElement(name);
    element.textContent = text;
    return element;
  };
  const row = (cells) => {
    const tr = document.createElement('tr');
    cells.forEach((text, i) => {
      const cell = made(i ? 'td' : 'th', text);
      if (!i) cell.scope = 'row';
      tr.append(cell);
    });
    return tr;
  };
  const fill = (id, rows) => by(id).querySelector('tbody').replaceChildren(...rows.map(row));
  const list = (id, texts) => {
    const before = [...by(id).children].map((item) => item.textContent);
    if (before.join('\n') !== texts.join('\n')) by(id).replaceChildren(...texts.map((text) => made('li', text)));
  };
  // Of a point: as page.rs has them.
  const [FIRST, LAST, TRIAL, START, LENGTH, TX, RX, LOST] = [0, 1, 2, 3, 4, 5, 6, 7];
  const [INTENDED, LOW, HIGH, P50, P99, P999] = [12, 13, 14, 15, 16, 17];
  const MOST = 2000;
  let points = [];
  let state = null;
  let over = false;

  const take = (more) => {
    // The older part may come thinned a second time: what it covers gives way.
    while (points.length && points[points.length - 1][LAST] >= more[0][FIRST]) points.pop();
    points = points.concat(more);
    if (points.length > MOST) {
      const older = points.slice(0, MOST / 2);
      const thin = [];
      for (let i = 0; i + 1 < older.length; i += 2) {
        const [a, b] = [older[i], older[i + 1]];
        if (a[TRIAL] !== b[TRIAL]) {
          thin.push(a, b);
          continue;
        }
        const both = a.slice();
        both[LAST] = b[LAST];
        for (let k = LENGTH; k < INTENDED; k++) both[k] = a[k] + b[k];
        both[LOW] = Math.min(a[LOW], b[LOW]);
        both[HIGH] = Math.max(a[HIGH], b[HIGH]);
        const most = (k) => (a[k] == null ? b[k] : b[k] == null ? a[k] : Math.max(a[k], b[k]));
        for (let k = P50; k < both.length; k++) both[k] = most(k);
        thin.push(both);
      }
      points = thin.concat(points.slice(MOST / 2)).slice(-MOST);
    }
  };

  const lines = {
    rates: [
      ['sent', '--sent', 'steps'],
      ['received', '--received', 'dots steps'],
      ['intended', '--intended', 'dashes steps'],
    ],
    latency: [['p50', '--p50', 'line'], ['p99', '--p99', 'dashes'], ['p99.9', '--p999', 'dots']],
  };
  const rates = live.chart(by('rates'), lines.rates, live.rate, false);
  const losses = live.chart(by('loss-chart'), [['lost', '--loss', 'bars']], live.percent, false);
  const latency = live.chart(by('latency-chart'), lines.latency, live.time, true);

  const draw = () => {
    // Lines of two trials are not joined.
    const all = [];
    points.forEach((p, i) => {
      const before = points[i - 1];
      if (i && before[TRIAL] !== p[TRIAL]) all.push({ [START]: before[START] + before[LENGTH] });
      all.push(p);
    });
    const x = all.map((p) => p[START]);
    const each = (of) => all.map((p) => (p[LENGTH] ? of(p) : null));
    const pps = (k) => each((p) => p[k] / p[LENGTH]);
    rates.setData([x, pps(TX), pps(RX), each((p) => p[INTENDED])]);
    losses.setData([x, each((p) => (p[TX] > 0 ? Math.max(0, p[LOST]) / p[TX] : 0))]);
    const of = (k) => each((p) => p[k] || null);
    latency.setData([x, of(P50), of(P99), of(P999)]);
  };

  const tables = () => {
    const newest = points.slice(-8).reverse();
    fill('rows', newest.map((p) => [
      p[START].toFixed(1) + ' s', live.rate(p[TX] / p[LENGTH]), live.rate(p[RX] / p[LENGTH]), live.count(p[LOST]),
      live.time(p[P50]), live.time(p[P99]), live.time(p[P999]),
    ]));
    if (!state) return;
    fill('lanes', state.lanes.map(([queue, tx, rx, busy, dropped, refused, waited], lane) => [
      String(lane), String(queue), live.count(tx), live.count(rx), live.percent(busy), live.count(dropped),
      live.count(refused), live.time(waited),
    ]));
    by('streams-of').hidden = !state.streams.length;
    fill('streams', state.streams.map(([name, tx, rx, loss, lost, mean, max]) => [
      name, live.rate(tx), live.rate(rx), live.percent(loss), live.count(lost), live.time(mean), live.time(max),
    ]));
    by('ways-of').hidden = !state.ways.length;
    fill('ways', state.ways.map(([name, tx, rx, sent, lost]) => [
      name, live.rate(tx), live.rate(rx), live.percent(sent ? Math.max(0, lost) / sent : null),
    ]));
    by('search').hidden = state.single;
    const goal = ([name, size, lower, upper]) => [name, size + ' bytes', live.rate(lower), live.rate(upper)];
    fill('goals', state.goals.map(goal));
    by('noted').hidden = !state.notes.length;
    list('notes', state.notes);
  };

  const phase = () => {
    const s = state;
    if (s.ended) {
      const after = s.single ? 'The run has ended after ' + live.seconds(s.elapsed_ns) : 'Ended after trial ' + s.trial;
      return after + '. This page keeps what it has; mpps is gone.';
    }
    const of = s.planned_ns ? ' of ' + live.seconds(s.planned_ns) : ', until interrupted';
    const trial = s.single ? '' : 'Trial ' + s.trial + ': ';
    switch (s.phase) {
      case 'waiting': return 'Not begun';
      case 'settling': return trial + 'waiting for packets under way';
      case 'between trials': return 'Between trials (' + s.trial + ' so far)';
      default: return trial + live.seconds(s.elapsed_ns) + of;
    }
  };

  const verdict = () => {
    const s = state;
    const [head, kind, against] = s.ended
      ? [(s.valid ? '' : 'Not ') + (s.single ? 'valid' : 'complete'), s.valid ? 'good' : 'wrong', s.valid ? [] : null]
      : s.phase === 'waiting' || s.phase === 'between trials' ? ['Valid so far?', 'unknown', []]
        : s.against.length ? ['Something speaks against it so far', 'wrong', s.against]
          : ['Valid so far: nothing speaks against it', 'good', []];
    put('verdict-head', head.charAt(0).toUpperCase() + head.slice(1));
    by('verdict').className = 'verdict ' + kind;
    if (against) list('against', against);
  };

  const numbers = () => {
    const s = state;
    document.title = 'mpps ' + s.workload + ' ' + s.device;
    put('title', 'mpps ' + s.workload + (s.path ? ' ' + s.path + ':' + s.device : ''));
    put('phase', phase());
    const bar = by('progress');
    bar.hidden = !s.planned_ns || s.ended;
    bar.value = s.planned_ns ? Math.min(1, s.elapsed_ns / s.planned_ns) : 0;
    verdict();
    by('card-intended').hidden = !s.sends;
    by('card-received').hidden = by('card-loss').hidden = by('losses').hidden = !s.receives;
    by('card-latency').hidden = by('latencies').hidden = s.workload !== 'sendrecv' && s.single;
    // Once it is over, of the whole.
    const mean = (packets) => (s.elapsed_ns ? (packets / s.elapsed_ns) * 1e9 : null);
    put('intended', s.intended_pps == null ? 'all it can' : live.rate(s.intended_pps));
    const [, missed] = s.faults.find(([word]) => word === 'missed') || [];
    put('missed', missed ? live.count(missed) + ' departures missed' : 'no departure missed');
    put('offered-head', s.sends ? 'Offered' : 'Sent');
    put('offered', live.rate(s.ended ? mean(s.tx) : s.tx_pps));
    put('sent', live.count(s.tx) + ' packets');
    put('received', live.rate(s.ended ? mean(s.rx) : s.rx_pps));
    const faults = s.faults.filter(([word, packets]) => packets && word !== 'missed');
    put('came', [['packets', s.rx], ...faults].map(([word, packets]) => live.count(packets) + ' ' + word).join(', '));
    put('loss', s.settled_tx ? live.percent(Math.max(0, s.settled_lost) / s.settled_tx) : 'not known yet');
    const lost = live.count(Math.max(0, s.settled_lost));
    put('lost', s.settled_tx ? lost + ' of ' + live.count(s.settled_tx) + ' settled' : '');
    const l = s.latency;
    put('p50', l ? live.time(l.p50 == null ? l.mean : l.p50) : '–');
    const tail = l && l.p99 != null ? 'p99 ' + live.time(l.p99) + ', p99.9 ' + live.time(l.p999) : '';
    put('tail', tail && !s.ended ? tail + '; newest row' : tail);
    put('wait', live.time(s.host_wait_ns));
    const dropped = s.host_dropped == null ? 'drops not known' : live.count(s.host_dropped) + ' dropped';
    put('host', 'lanes not running; ' + dropped);
    const about = s.trial_about;
    if (about) {
      const load = about.load_pps == null ? 'as fast as it can' : live.rate(about.load_pps);
      const what = 'Trial ' + s.trial + ' (' + about.phase + '): frames of ' + about.frame_size + ' bytes, ';
      put('trial', what + load + '.');
    }
    put('footer', 'mpps ' + s.version + '. ' + s.command.join(' '));
  };

  const result = (end) => {
    const parts = [made('h2', 'Result')];
    if (end.document) {
      if (end.document.incomplete) parts.push(made('p', end.document.incomplete));
      end.document.verdict.forEach((line) => parts.push(made('p', line)));
    }
    list('against', end.reasons || []);
    for (const table of (end.document && end.document.tables) || []) {
      const box = document.createElement('div');
      box.className = 'scroll';
      const element = document.createElement('table');
      element.append(made('caption', table.caption));
      const head = document.createElement('thead');
      const names = document.createElement('tr');
      table.head.forEach((name) => {
        const cell = made('th', name);
        cell.scope = 'col';
        names.append(cell);
      });
      head.append(names);
      const body = document.createElement('tbody');
      body.append(...table.rows.map(row));
      for (const tr of [names, ...body.children]) {
        [...tr.children].forEach((cell, i) => {
          cell.classList.toggle('text', table.texts[i]);
          cell.classList.toggle('long', cell.textContent.length > 40);
        });
      }
      element.append(head, body);
      box.append(element);
      parts.push(box);
    }
    by('result').replaceChildren(...parts);
    by('result').hidden = false;
  };

  // Tables, which screen readers follow, once a second; all once a second where motion is not wanted.
  const calm = matchMedia('(prefers-reduced-motion: reduce)');
  let drawn = 0;
  let tabled = 0;
  let due = 0;
  const show = () => {
    due = 0;
    const now = performance.now();
    if (!over && calm.matches && now - drawn < 1000) {
      due = setTimeout(show, 1000 - (now - drawn));
      return;
    }
    drawn = now;
    if (state) numbers();
    draw();
    if (over || now - tabled >= 1000) {
      tabled = now;
      tables();
    }
  };
  const soon = () => {
    if (!due) due = setTimeout(show, 0);
  };

  const source = new EventSource('events');
  source.addEventListener('rows', (event) => {
    take(JSON.parse(event.data));
    soon();
  });
  source.addEventListener('state', (event) => {
    state = JSON.parse(event.data);
    over = state.ended;
    soon();
  });
  source.addEventListener('end', (event) => {
    source.close();
    over = true;
    result(JSON.parse(event.data));
    soon();
  });
  source.addEventListener('error', () => {
    const gone = 'No connection: mpps has ended, or is out of reach. What is here is the newest that came.';
    if (!over) put('phase', gone);
  });
})();
