// Tables, cards and the explanations around the plots.
const tables = (() => {
  // Columns that plans and policies share, in units that suit all rows and the baseline.
  const figureColumns = (rows, baseline, hasOrders) => {
    const compare = relative(baseline);
    const timeUnit = units.timeUnit(Math.max(baseline.time_s, ...rows.map((row) => row.time_s)));
    const energyUnit = units.energyUnit(Math.max(baseline.energy_j, ...rows.map((row) => row.energy_j)));
    const timeDigits = units.decimals(baseline.time_s * timeUnit.factor, 6);
    const energyDigits = units.decimals(baseline.energy_j * energyUnit.factor, 6);
    const time = (value) => units.fixed(units.isNumber(value) ? value * timeUnit.factor : null, timeDigits);
    const energy = (value) => units.fixed(units.isNumber(value) ? value * energyUnit.factor : null, energyDigits);
    return {
      deadline: {head: ['Deadline', timeUnit.name], text: (row) => time(row.deadline_s)},
      time: {head: ['Iteration time', timeUnit.name], text: (row) => time(row.time_s)},
      slowdown: {head: ['Slowdown', '% of baseline'], text: (row) => units.signed(compare.slowdown(row.time_s), 2)},
      energy: {head: ['Energy', energyUnit.name], text: (row) => energy(row.energy_j)},
      saving: {head: ['Saving', '% of baseline'], text: (row) => units.fixed(compare.saving(row.energy_j), 3)},
      bound: {head: ['Lower bound', energyUnit.name], text: (row) => energy(row.lower_bound_j)},
      gap: {head: hasOrders ? ['Gap', '% of its order\'s bound'] : ['Gap', '% of bound'], text: (row) => units.fixed(compare.gap(row), 3)},
      jointGap: {head: ['Gap to all orders', '% of their bound'],
        text: (row) => units.fixed(compare.gap({energy_j: row.energy_j, lower_bound_j: row.joint_bound_j}), 3)},
      switches: {head: ['Switches', 'per iteration'],
        text: (row) => (row.switches === undefined ? units.fixed(null) : String(row.switches))},
    };
  };

  const marked = (name, mark) => [name, ...(mark ? [element('span', {class: 'mark', text: mark})] : [])];

  // The chosen plan comes first: the others are there to compare it with.
  const policies = (report, chosenPlan) => {
    const isChosen = ({name}) => report.comparison && name === report.chosen.label;
    // Activations depend on the order alone.
    const held = (order) => (order ? order.peak_activations
      : (report.policies.find((policy) => !policy.own_order) || {}).peak_activations);
    const rows = [...(chosenPlan ? [{...report.policies.find(isChosen), ...chosenPlan, name: report.chosen.label,
      isPlanned: true, peak_activations: held(report.orders[chosenPlan.order])}] : []),
      {...report.baseline, name: 'baseline', isPlanned: true, note: report.baseline.description,
        peak_activations: report.orders.length ? null : held(null), late_energy_pct: 0, late_time_pct: 0},
      ...report.policies.filter((policy) => !isChosen(policy))];
    const orderOf = (row) => (row.own_order ? 'own' : report.orders.length ? report.orders[row.order]?.name ?? 'reference'
      : 'given');
    const columns = figureColumns(rows, report.baseline, report.orders.length > 0);
    return dataTable([
      {head: ['Policy'], css: 'named', node: (row) => [...marked(row.name, row.isPlanned ? 'planned' : ''),
        ...(row.note ? [element('span', {class: 'note', text: row.note})] : [])]},
      ...(new Set(rows.map(orderOf)).size > 1 ? [{head: ['Order'], text: orderOf}] : []),
      columns.time, columns.slowdown, columns.energy, columns.saving,
      ...(report.comparison && report.clock_lead_s > 0 ? [{head: ['With late clocks', 'saving % (time)'], text: (row) =>
        (units.isNumber(row.late_energy_pct) ? `${units.fixed(-row.late_energy_pct, 2)} ` +
          `(${units.signedPercent(row.late_time_pct, 2)})` : units.fixed(null))}] : []),
      columns.gap, columns.switches,
      {head: ['Activations', 'whole microbatches, most on a rank'],
        text: (row) => (units.isNumber(row.peak_activations) ? String(row.peak_activations) : units.fixed(null))},
      {head: ['Time to plan'], text: (row) => units.time(row.plan_time_s, 3)},
    ], rows, (row) => (chosenPlan && row.number === chosenPlan.number ? 'chosen' : ''));
  };

  const plans = (report) => {
    const isChosen = (row) => row.number === report.chosen_plan;
    const columns = figureColumns(report.plans, report.baseline, report.orders.length > 0);
    return dataTable([
      {head: ['Plan'], node: (row) => marked(String(row.number), isChosen(row) ? 'chosen' : '')},
      ...(report.orders.length ? [{head: ['Order'], text: (row) => report.orders[row.order].name}] : []),
      columns.deadline, columns.time, columns.slowdown, columns.energy, columns.saving, columns.bound, columns.gap,
      ...(report.orders.length ? [columns.jointGap] : []), columns.switches,
    ], report.plans, (row) => (isChosen(row) ? 'chosen' : ''));
  };

  // The work before and after a change, at full clocks and with a plan.
  const change = ({rows}) => {
    const energyUnit = units.energyUnit(d3.max(rows, (row) => row.energy_j));
    return dataTable([
      {head: ['Work'], css: 'named', text: (row) => row.work},
      {head: ['Clocks'], text: (row) => row.clocks},
      {head: ['Iteration time'], text: (row) => units.time(row.time_s, 5)},
      {head: ['Energy', energyUnit.name], text: (row) => units.fixed(row.energy_j * energyUnit.factor, 1)},
      {head: ['Time', '% of full clocks before'], text: (row) => units.signed(row.time_pct, 2)},
      {head: ['Energy', '% of full clocks before'], text: (row) => units.signed(row.energy_pct, 2)},
      {head: ['Gap', '% of bound'], text: (row) => units.fixed(row.gap_pct, 3)},
    ], rows, (row) => (row === rows[rows.length - 1] ? 'chosen' : ''));
  };

  // Shows the first rows of the table in `box`, and the marked one, until a button is pressed.
  const fold = (box, name) => {
    const kFirst = 5;
    const rows = [...box.querySelectorAll('tbody tr')];
    const rest = rows.filter((row, i) => i >= kFirst && row.className !== 'chosen');
    if (rest.length < 2) return;
    rest.forEach((row) => row.classList.add('rest'));
    box.classList.add('folded');
    const button = element('button', {type: 'button', class: 'unfold', text: `${rows.length} ${name}, show all`});
    button.addEventListener('click', () => {
      box.classList.remove('folded');
      button.remove();
    });
    box.after(button);
  };

  // Which order holds where.
  const orders = (report) => {
    const timeUnit = units.timeUnit(Math.max(...report.orders.map((order) => order.until_s)));
    const time = (value) => units.fixed(value * timeUnit.factor, units.decimals(value * timeUnit.factor, 6));
    const rows = report.orders.map((order, number) => ({...order, number}));
    return dataTable([
      {head: ['Order'], css: 'named', node: (row) => [frontierPlot.lineSample(
        `curve ${frontierPlot.orderClass(row.number)}`), ` ${row.name}`]},
      {head: ['Stages', 'per rank'], text: (row) => String(row.stages_per_rank)},
      {head: ['Activations', 'whole microbatches, most on a rank'], text: (row) => String(row.peak_activations)},
      {head: ['First best at', timeUnit.name], text: (row) => time(row.from_s)},
      {head: ['Last best at', timeUnit.name], text: (row) => time(row.until_s)},
      {head: ['Plans'], text: (row) => ranges(row.plans)},
      {head: ['Files'], text: (row) => `orders/${String(row.number).padStart(2, '0')}`},
    ], rows);
  };

  // Small bar chart: share of `ops` by clock, on the scale of all clocks of the report.
  const clockHistogram = (ops, [low, high], colourOf, {width = 132, height = 26} = {}) => {
    const bars = timelineData.timeByClock(ops);
    const svg = d3.select(document.createElementNS('http://www.w3.org/2000/svg', 'svg'))
      .attr({width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': timelineData.describeClocks(ops)});
    const x = d3.scale.linear().domain(high > low ? [low, high] : [low - 1, high + 1]).range([3, width - 3]);
    const y = d3.scale.linear().domain([0, d3.max(bars, (bar) => bar.time_s) || 1]).range([0, height - 3]);
    svg.append('line').attr({x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5, stroke: 'var(--rule)'});
    svg.selectAll('rect').data(bars).enter().append('rect')
      .attr({x: (bar) => x(bar.clock_mhz) - 2, width: 4, y: (bar) => height - 1 - Math.max(2, y(bar.time_s)),
        height: (bar) => Math.max(2, y(bar.time_s)), fill: (bar) => colourOf(bar.clock_mhz).fill});
    svg.append('title').text(timelineData.describeClocks(ops));
    return svg.node();
  };

  const clockRange = (ops) => {
    if (!ops.length) return units.fixed(null);
    const [low, high] = d3.extent(ops, (op) => op.clock_mhz);
    return low === high ? `${low}` : `${low} to ${high}`;
  };

  const ranks = (report, chosen, baseline, clocks, colourOf) => {
    const kinds = [...new Set(chosen.ranks.flat().map((op) => op.kind))];
    const rankEnergy = (timeline, rank) => {
      const ops = timeline.ranks[rank];
      if (!ops) return null;
      return d3.sum(ops, (op) => op.energy_j) +
        report.blocking_power_w[rank] * (timeline.time_s - timelineData.busy(ops));
    };
    const rows = chosen.ranks.map((ops, rank) => ({
      rank, ops, stages: [...new Set(ops.map((op) => op.stage))].sort((a, b) => a - b),
      blockedShare: 100 * (1 - timelineData.busy(ops) / chosen.time_s),
      energy_j: rankEnergy(chosen, rank), baseline_j: rankEnergy(baseline, rank),
    }));
    const energyUnit = units.energyUnit(d3.max(rows, (row) => row.energy_j) || 0);
    const kindColumns = kinds.flatMap((kind) => {
      const of = (row) => row.ops.filter((op) => op.kind === kind);
      const name = timelineData.kKindNames[kind];
      return [{head: [`${name[0].toUpperCase()}${name.slice(1)}, busy time by clock`, `${clocks[0]} to ${clocks[1]} MHz`],
        css: 'hist', node: (row) => element('span', {}, [clockHistogram(of(row), clocks, colourOf),
          element('small', {text: of(row).length ? `${clockRange(of(row))} MHz` : clockRange([])})])}];
    });
    return dataTable([
      {head: ['Rank'], text: (row) => String(row.rank)},
      {head: ['Stage'], text: (row) => row.stages.join(', ')},
      {head: ['Waiting', '% of iteration'], text: (row) => units.fixed(row.blockedShare, 2)},
      {head: ['Energy', energyUnit.name],
        text: (row) => units.fixed(row.energy_j * energyUnit.factor, units.decimals(row.energy_j * energyUnit.factor, 5))},
      ...(baseline.ranks.length ? [{head: ['Saving', '% of baseline'], text: (row) =>
        units.fixed(row.baseline_j ? 100 * (1 - row.energy_j / row.baseline_j) : null, 2)}] : []),
      ...kindColumns,
    ], rows);
  };

  return {policies, plans, change, fold, orders, ranks};
})();
