// Builds the report.
(() => {
  const report = JSON.parse(document.getElementById('report-data').textContent);
  const byId = (id) => document.getElementById(id);
  const {baseline, change} = report;
  const compare = relative(baseline);
  const chosenPlan = report.plans.find((plan) => plan.number === report.chosen_plan) || null;
  const chosen = timelineData.decode(report.chosen);
  const baselineTimeline = timelineData.decode(report.baseline_timeline);
  const counted = (count, one, many) => `${count} ${count === 1 ? one : many}`;

  const clockChanges = () => {
    if (report.clock_lead_s > 0) return `requested ${units.time(report.clock_lead_s, 3)} before their units`;
    return report.late_by_s > 0 ? `changed ${units.time(report.late_by_s, 3)} after their units begin` : 'changed at once';
  };

  const drawHead = () => {
    const title = `${report.profile_name}: ${counted(report.stages, 'stage', 'stages')} × ` +
      counted(report.microbatches, 'microbatch', 'microbatches') + (change ? `, ${change.description}` : '');
    byId('title').textContent = title;
    document.title = `${title} – Lowgear`;
    const rounded = (watt) => Number(watt.toPrecision(4));
    const watts = [...new Set(report.blocking_power_w.map(rounded))].sort((a, b) => a - b);
    const blocking = watts.length > 1 ? `${watts[0]} to ${watts[watts.length - 1]} W` : `${watts[0] ?? '–'} W`;
    const facts = [['Schedule', report.schedule],
      ...(report.memory_limit ? [['Memory limit', report.memory_limit === '1f1b' ? 'as 1F1B'
        : `${report.memory_limit} microbatches`]] : []), ['GPUs', `${report.blocking_power_w.length}, one per rank`],
      ['Blocking power', blocking],
      ['Clocks', clockChanges()],
      ...(change ? [['Partition', change.partition]] : []),
      ...(change && change.partition_before ? [['Partition before', change.partition_before]] : [])];
    byId('facts').replaceChildren(...facts.map(([name, text]) =>
      element('li', {}, [`${name} `, element('b', {text})])));
  };

  const card = (name, value, detail, mood = '') => element('div', {class: 'card'}, [
    element('h3', {text: name}), element('p', {class: `value ${mood}`, text: value}),
    element('p', {class: 'detail', text: detail})]);

  // A change in words; one that two digits do not show is none.
  const inWords = (percent, unchanged, [more, less]) => {
    const size = Math.abs(percent);
    return size < 0.05 ? unchanged : `${units.percent(size, 1)} ${percent > 0 ? more : less}`;
  };

  const drawHeadline = () => {
    byId('headline').hidden = !chosenPlan || !(baseline.energy_j > 0 && baseline.time_s > 0);
    if (byId('headline').hidden) return;
    const bound_j = chosenPlan.joint_bound_j ?? chosenPlan.lower_bound_j;
    const gap = compare.gap({energy_j: chosenPlan.energy_j, lower_bound_j: bound_j});
    const [energy_pct, time_pct] = change ? [change.energy_pct, change.time_pct]
      : [-compare.saving(chosenPlan.energy_j), compare.slowdown(chosenPlan.time_s)];
    byId('headline').replaceChildren(
      element('strong', {text: `${inWords(energy_pct, 'Same energy', ['more energy', 'less energy'])}, ` +
        `${inWords(time_pct, 'same time', ['slower', 'faster'])}${change ? ' than the plan before' : ''}`}),
      element('span', {class: 'basis', text: 'planned'}),
      ...(gap !== null ? [` At most ${units.percent(gap, 3)} more energy than the best possible plan of this time` +
        `${report.certificate.verified ? '' : ', by a bound that was not verified'}.`] : []));
  };

  // Lowgear's row of a comparison.
  const ownRow = report.comparison ? report.policies.find(({name}) => name === report.chosen.label) : null;

  const lateCard = () => {
    const late = ownRow && units.isNumber(ownRow.late_energy_pct)
      ? {energy_pct: ownRow.late_energy_pct, time_pct: ownRow.late_time_pct} : report.late;
    return late ? [card('If clocks are requested when units begin, replayed', units.signedPercent(late.energy_pct, 2),
      `energy, ${units.signedPercent(late.time_pct, 2)} time: each clock changes ` +
      `${units.time(report.clock_lead_s, 3)} after its unit begins`)] : [];
  };

  const drawCards = () => {
    if (!chosenPlan) return;
    const saving = compare.saving(chosenPlan.energy_j);
    const savesNothing = report.warnings.some((text) => text.startsWith('the plan saves nothing'));
    const slowdown = compare.slowdown(chosenPlan.time_s);
    const gpus = Math.max(1, report.blocking_power_w.length);
    const watts = ({energy_j, time_s}) => energy_j / time_s / gpus;
    const gap = compare.gap(chosenPlan);
    const jointGap = compare.gap({energy_j: chosenPlan.energy_j, lower_bound_j: chosenPlan.joint_bound_j});
    const isFree = report.orders.length > 0;
    const proof = report.certificate.verified ? 'certified: at most this much more energy than the best possible plan'
      : 'the lower bound was not verified';
    const of = change ? ' against full clocks of the changed work' : '';
    byId('cards').replaceChildren(
      card(`Energy per iteration${of}, planned`, units.signedPercent(-saving, 2),
        `${units.energy(baseline.energy_j)} → ${units.energy(chosenPlan.energy_j)}` +
        `${savesNothing ? ' · nothing saved: the notes say why' : ''}`, saving > 0 ? 'good' : 'bad'),
      card(`Iteration time${of}, planned`, units.signedPercent(slowdown, 2),
        `${units.time(baseline.time_s)} → ${units.time(chosenPlan.time_s)}`, slowdown >= 0.005 ? 'bad' : ''),
      isFree
        ? card('Above the bound of all orders', units.percent(jointGap, 3), report.certificate.verified
          ? `certified; ${units.percent(gap, 3)} above that of the order ${report.orders[chosenPlan.order].name}`
          : 'the bound was not verified')
        : card('Above the lower bound', units.percent(gap, 3), gap === null ? 'no bound was computed' : proof),
      card('Mean power per GPU, planned', units.power(watts(chosenPlan)),
        `baseline ${units.power(watts(baseline))} · ` +
        `${counted(chosenPlan.switches, 'clock switch', 'clock switches')} per iteration`),
      ...lateCard());
  };

  const drawFrontier = () => {
    byId('frontier-legend').replaceChildren(...frontierPlot.legend(report));
    const plot = new frontierPlot.Plot(byId('frontier'), frontierPlot.ofReport(report));
    interaction.attachButtons(byId('frontier').closest('section'), (factor) => plot.zoomBy(factor));
    interaction.onResize(byId('frontier'), () => plot.layout());
    const vertices = report.frontier_vertices;
    const shown = report.frontier.time_s.length;
    byId('frontier-caption').textContent = `The energy axis does not start at zero. The frontier has ` +
      `${counted(vertices, 'vertex', 'vertices')}` +
      (shown < vertices ? `; ${shown} are drawn, which is true to 0.001 % of its energy range. ` : '. ') +
      (plot.key.children.length > 1 ? 'Points that touch share their numbers: zoom in to part them. ' : '') +
      'Drag to move; click the plot, then scroll to zoom (or Ctrl + scroll; two fingers on a touch screen).';
    return plot;
  };

  const drawTimeline = () => {
    const panel = byId('timeline').closest('section');
    if (!chosen.ranks.some((ops) => ops.length)) {
      panel.hidden = true;
      return null;
    }
    const groups = [{title: `${chosen.label} (planned)`, timeline: chosen}];
    if (baselineTimeline.ranks.length) {
      groups.push({title: `${baselineTimeline.label} (planned)`, timeline: baselineTimeline});
    }
    const timeline = new timelinePlot.Timeline(byId('timeline'), byId('overview'), report.blocking_power_w, groups);
    interaction.attachButtons(panel, (factor) => timeline.zoomBy(factor));
    interaction.onResize(byId('timeline'), () => timeline.layout());
    const idle = element('li', {}, [element('span', {class: 'lane-sample'}), 'waiting']);
    const kinds = [...new Set(groups.flatMap((group) => group.timeline.ranks.flat()).map((op) => op.kind))];
    byId('timeline-legend').replaceChildren(...timelineLegend.kinds(kinds), idle);
    byId('timeline-caption').textContent = `${groups.length > 1 ? 'Both iterations on one time scale; colour' : 'Colour'} ` +
      'is the clock an op runs at, its number the microbatch. Bars above the colour scale: busy time of the chosen plan by clock. Point at an op to ' +
      'see it and follow its microbatch over the ranks. Drag to move; click, then scroll to zoom (or Ctrl + scroll).';
    return timeline;
  };

  // The clocks of the chosen plan step by step, in the colours of the timeline.
  const drawGrid = (timeline) => {
    byId('grid-panel').hidden = !timeline;
    return timeline ? new clockGrid.Grid(byId('grid'), chosen.ranks, timeline.colourOf) : null;
  };

  const drawValleys = () => {
    byId('valley-panel').hidden = report.valleys.length === 0;
    byId('valley-legend').replaceChildren(...valleyPlot.legend(report.valleys));
    byId('valley-caption').textContent = valleyPlot.caption(report.valleys) +
      (report.valleys.some((valley) => units.isNumber(valley.envpipe_clock_mhz))
        ? ' EnvPipe starts from the clock at which a rank uses least energy in an iteration, waiting included, when all ' +
          'ranks run at one clock. It compares profiled clocks that are 90 MHz or more apart, from the highest down.' : '');
    return valleyPlot.draw(byId('valleys'), report.valleys);
  };

  // Draws everything that depends on the colours of the theme.
  const drawColoured = (timeline) => {
    byId('ranks-panel').hidden = !timeline;
    if (!timeline) return;
    const {clocks, colourOf} = timeline;
    byId('clock-legend').replaceChildren(timelineLegend.clocks(chosen.ranks.flat(), clocks, colourOf));
    byId('ranks').replaceChildren(tables.ranks(report, chosen, baselineTimeline, clocks, colourOf));
  };

  const drawTables = () => {
    byId('change-panel').hidden = !change;
    if (change) byId('change').replaceChildren(tables.change(change));
    byId('policies').replaceChildren(tables.policies(report, chosenPlan));
    byId('plans').replaceChildren(tables.plans(report));
    tables.fold(byId('plans'), 'plans');
    byId('plans-panel').hidden = report.plans.length === 0 || report.comparison;
    byId('orders-panel').hidden = report.orders.length === 0;
    if (report.orders.length) byId('orders').replaceChildren(tables.orders(report));
    byId('warnings').replaceChildren(...report.warnings.map((text) => element('li', {}, withWholeOptions(text))));
    byId('warnings').hidden = report.warnings.length === 0;
  };

  const drawReading = () => {
    const {certificate} = report;
    const entries = [
      ['Baseline', `${baseline.description}. Every saving and slowdown on this page is relative to it: ` +
        `${units.time(baseline.time_s, 6)} and ${units.energy(baseline.energy_j, 6)} per iteration.`],
      ['T_min, T*', 'T_min is the shortest possible iteration time. T* is the time of least energy: a slower ' +
        'iteration only uses more.'],
      ['Energy', 'Energy of one iteration of one pipeline with one GPU per rank: the profiled energy of its ops, plus ' +
        'blocking power for the time in which a GPU runs no op.'],
      ['Planned', 'Computed from the stage profile. Nothing on this page was measured while training with these clocks.'],
      ...(report.comparison && report.clock_lead_s > 0 ? [['With late clocks', 'Each clock changes ' +
        `${units.time(report.clock_lead_s, 3)} after its op begins, for the baseline, too, whose figures the column is ` +
        'relative to.']] : []),
      ...(report.orders.length || report.policies.some((policy) => policy.own_order) ? [['Order', 'Policies that run an order of their own ("own") have neither the bound nor the plans of this page; all ' +
        `others run ${report.orders.length ? 'the named order, those marked "reference" that of the baseline'
          : `the given order, ${report.schedule}`}.`]] : []),
      ['Replayed', 'The clocks that a policy chose, run through the simulator on the same profile and schedule, in the ' +
        'same way for every policy' + (report.late ? '; and those of the chosen plan, each as late as its card says.' : '.')],
      ['Lower bound', 'The least energy of any choice of clocks at that iteration time, also when an op may change its ' +
        'clock halfway' + (report.orders.length ? ', in the order of the plan' : '') +
        '. Gap: how far a plan with one clock per op is above it.'],
      ...(report.orders.length ? [['Orders', 'Searched among those that fit the memory limit and can run. The frontier ' +
        'is the least energy over the orders that were kept. The bound of all orders holds for every order of one or two ' +
        'stages on each GPU within the memory limit whose backwards are all whole or all split, tried or not.']] : []),
      ['Certificate', `${certificate.verified ? 'Verified. ' : 'Not verified. '}${certificate.statement}`,
        certificate.command],
    ];
    byId('reading').replaceChildren(...entries.flatMap(([name, text, command]) => [
      element('dt', {text: name}),
      element('dd', {}, [text, ...(command ? [' Check it again: ', element('code', {text: command})] : [])])]));
    byId('footer').replaceChildren(
      element('p', {text: `Lowgear ${report.lowgear_version} · profile ${report.profile_name}`}),
      ...(report.command ? [element('p', {}, ['Created by ', element('code', {text: report.command})])] : []),
      element('p', {text: 'Plots use D3 (© 2010–2016 Michael Bostock, BSD-3-Clause; its licence is in the source of ' +
        'this page). The page holds all its data and loads nothing.'}));
  };

  drawHead();
  drawHeadline();
  drawCards();
  const frontier = drawFrontier();
  const timeline = drawTimeline();
  const grid = drawGrid(timeline);
  const valleys = drawValleys();
  drawTables();
  drawColoured(timeline);
  drawReading();
  palette.onChange(() => {
    if (timeline) timeline.onTheme();
    if (grid) grid.onTheme(timeline.colourOf);
    drawColoured(timeline);
  });

  Object.assign(document.documentElement.dataset, {
    ready: '1',
    frontierVertices: frontier.curve.length,
    points: frontier.points.length,
    ops: d3.sum(chosen.ranks, (ops) => ops.length),
    gridSteps: grid ? grid.steps : 0,
    valleys,
    baselineOps: d3.sum(baselineTimeline.ranks, (ops) => ops.length),
  });
})();
