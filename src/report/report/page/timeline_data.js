// Timelines as the page works with them, out of their compact form in the data block.
const timelineData = (() => {
  const decode = ({label, time_s, energy_j, tick_s, costs, ranks}) => ({
    label, time_s, energy_j,
    ranks: ranks.map(({cost, microbatch, start}) => cost.map((index, i) => {
      const [stage, kind, clock_mhz, durationTicks, op_energy_j, setting] = costs[index];
      return {stage, kind, clock_mhz, microbatch: microbatch[i], start_s: start[i] * tick_s,
        duration_s: durationTicks * tick_s, energy_j: op_energy_j, setting};
    })),
  });

  const opKey = (op) => `${op.kind}${op.stage}/${op.microbatch}`;

  // First op of `ops` (ordered by start) that ends after `time_s`.
  const firstEndingAfter = (ops, time_s) =>
    d3.bisector((op) => op.start_s + op.duration_s).right(ops, time_s);

  // Op that runs at `time_s`, or null when the rank is idle then.
  const opAt = (ops, time_s) => {
    const op = ops[firstEndingAfter(ops, time_s)];
    return op && op.start_s <= time_s ? op : null;
  };

  const busy = (ops) => d3.sum(ops, (op) => op.duration_s);

  // Busy time by clock: sorted [{clock_mhz, time_s}].
  const timeByClock = (ops) => {
    const sums = new Map();
    for (const op of ops) sums.set(op.clock_mhz, (sums.get(op.clock_mhz) || 0) + op.duration_s);
    return [...sums].map(([clock_mhz, time_s]) => ({clock_mhz, time_s})).sort((a, b) => a.clock_mhz - b.clock_mhz);
  };

  const describeClocks = (ops) => {
    const bars = timeByClock(ops);
    const total = d3.sum(bars, (bar) => bar.time_s);
    return bars.map((bar) => `${bar.clock_mhz} MHz: ${units.percent(100 * bar.time_s / total, 1)}`).join(', ');
  };

  const kKindNames = {F: 'forward', B: 'backward', I: 'input gradient', W: 'weight gradient', R: 'recomputation',
    C: 'recomputing backward'};

  // At the foot of an op: bars, each from and to a share of its width. Recomputation has a colour of its own.
  const [kBackward, kRecomputation] = ['#0000006b', '#00e0c6'];
  const kKindMarks = {F: [], B: [[0, 1, kBackward]], I: [[0, 1, kBackward]], W: [[0, 0.5, kBackward]],
    R: [[0, 1, kRecomputation]], C: [[0, 1 / 3, kRecomputation], [1 / 3, 1, kBackward]]};
  return {decode, opKey, firstEndingAfter, opAt, busy, timeByClock, describeClocks, kKindNames, kKindMarks};
})();
