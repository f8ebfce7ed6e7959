// Tables and plots of the simulated cluster, as text: pure functions of what `experiments.mjs` returns.

const ms = (value) => (value < 9950 ? `${Math.round(value)}` : `${(value / 1000).toFixed(1)} s`);
const bytes = (value) =>
  value >= 9.95e6
    ? `${Math.round(value / 1e6)} MB`
    : value >= 1e6
      ? `${(value / 1e6).toFixed(1)} MB`
      : `${(value / 1000).toFixed(1)} KB`;
const ratio = (value, base) => (value / base).toFixed(3);

const COLUMNS = [
  'gateways',
  'hit rate',
  'of one',
  'first token p50 ms',
  'p90 ms',
  'p99 ms',
  'p99 of one',
  'busiest CRN / mean',
];
const ENGINE_COLUMNS = ['bytes/request', 'blocks/request', 'messages/s'];

function columnsOf(name) {
  if (name === 'starts') return [...COLUMNS, 'hit rate after the start', 'of the others'];
  return name === 'policies' || name === 'lag' ? [...COLUMNS, ...ENGINE_COLUMNS] : COLUMNS;
}

/** A table of an experiment: `{ title, columns, rows, remarks }`. */
export function tableOf({ name, rows, title }) {
  const base = rows[0].figures;
  return {
    title,
    columns: columnsOf(name),
    rows: rows.map(({ figures, label }) => [
      label,
      figures.hitRate.toFixed(3),
      ratio(figures.hitRate, base.hitRate),
      ms(figures.p50),
      ms(figures.p90),
      ms(figures.p99),
      (figures.p99 / base.p99).toFixed(2),
      figures.imbalance.toFixed(2),
      ...moreOf(name, figures),
    ]),
    remarks: [],
  };
}

function moreOf(name, { engine, started }) {
  if (name === 'starts')
    return started === undefined ? ['-', '-'] : [started.own.toFixed(3), started.others.toFixed(3)];
  if (name !== 'policies' && name !== 'lag') return [];
  if (engine === undefined || engine.messages === 0) return ['-', '-', '-'];
  return [engine.bytesPerRequest.toFixed(0), engine.blocksPerRequest.toFixed(1), engine.messagesPerS.toFixed(1)];
}

/** One table of all fleets. */
export function scaleTable(scales) {
  return {
    title: 'Scale: n gateways that share, beside one and beside n that do not',
    columns: [
      ...[
        'gateways',
        'CRNs',
        'requests/s',
        'hit rate',
        'of one',
        'unshared, of one',
        'p99 of one',
        'unshared',
        'busiest / mean',
      ],
      ...[
        'messages/s',
        'into the engine/s',
        'out of it/s',
        'bytes/request',
        'index in use',
        'choice CPU us',
        'news CPU us/request',
      ],
    ],
    rows: scales.map(({ crns, gateways, rows: [one, shared, unshared] }) => {
      const { cpu, engine } = shared.figures;
      return [
        String(gateways),
        String(crns),
        shared.figures.requestsPerS.toFixed(shared.figures.requestsPerS < 10 ? 1 : 0),
        shared.figures.hitRate.toFixed(3),
        ratio(shared.figures.hitRate, one.figures.hitRate),
        ratio(unshared.figures.hitRate, one.figures.hitRate),
        (shared.figures.p99 / one.figures.p99).toFixed(2),
        (unshared.figures.p99 / one.figures.p99).toFixed(2),
        shared.figures.imbalance.toFixed(2),
        engine.messagesPerS.toFixed(0),
        bytes(engine.inPerS),
        bytes(engine.outPerS),
        engine.bytesPerRequest.toFixed(0),
        bytes(shared.figures.indexBytes),
        cpu === undefined ? '-' : cpu.choiceUs.toFixed(1),
        cpu === undefined ? '-' : cpu.applyUsPerEntry.toFixed(1),
      ];
    }),
    remarks: [],
  };
}

/** Plots of all experiments: hit rate and p99 by lag, and by policy. */
export function plotsOf(done) {
  const lags = done.filter(({ name }) => name === 'lag');
  const policies = done.filter(({ name }) => name === 'policies');
  const curves = (title, yLabel, of) => ({
    ...{ kind: 'curves', title, yLabel, xLabel: 'lag of news, ms', isLog: false },
    curves: lags.map(({ rows, workload }) => ({
      name: workload,
      points: rows
        .filter(({ lagMs }) => lagMs !== undefined)
        .map(({ figures, lagMs }) => [lagMs, of(figures, rows[0].figures)]),
    })),
  });
  const groups = (title, unit, of) => ({
    ...{ kind: 'groups', title, unit },
    groups: policies.map(({ rows, workload }) => ({
      name: workload,
      bars: rows.map(({ figures, label }) => {
        const value = of(figures, rows[0].figures);
        return { name: label, median: value, min: value, max: value };
      }),
    })),
  });
  return [
    ...(policies.length === 0
      ? []
      : [
          groups('Hit rate', 'share of that of one gateway', ({ hitRate }, one) => hitRate / one.hitRate),
          groups('Time to first token, p99', 'that of one gateway is 1', ({ p99 }, one) => p99 / one.p99),
        ]),
    ...(lags.length === 0
      ? []
      : [curves('Hit rate by lag', 'share of that of one gateway', ({ hitRate }, one) => hitRate / one.hitRate)]),
  ];
}
