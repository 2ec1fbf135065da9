// Energy of an op over its clock, stage by stage: EnvPipe's valley curves.
const valleyPlot = (() => {
  const kMostStages = 24;
  const kHeight = 190;
  const kMargin = {left: 46, right: 14, top: 12, bottom: 34};
  const kLabelWidth = 62;  // of '1410 MHz', with a gap
  const kDashes = {F: '', B: '6 4', I: '2 3', W: '10 3 2 3'};

  // In per cent of the energy at the highest clock: then all kinds have one axis.
  const shares = ({energy_j}) => energy_j.map((value) => 100 * value / energy_j[energy_j.length - 1]);

  // Whether two curves are drawn alike: a third of a per cent is less than a line's width.
  const kSamePercent = 0.3;
  const isSameCurve = (a, b) => String(a.clock_mhz) === String(b.clock_mhz) &&
    d3.zip(shares(a), shares(b)).every(([x, y]) => Math.abs(x - y) <= kSamePercent);
  const isSameStage = (a, b) => a.length === b.length && d3.zip(a, b).every(([x, y]) => x.kind === y.kind &&
    x.envpipe_clock_mhz === y.envpipe_clock_mhz && isSameCurve(x, y) &&
    d3.zip(x.energy_j, y.energy_j).every(([p, q]) => Math.abs(p / q - 1) <= kSamePercent / 100));

  // Kinds of a stage whose curves lie on each other, in words.
  const coinciding = (valleys) => valleys.map((valley, i) => valleys.filter((other, j) => j >= i &&
    isSameCurve(valley, other))).filter((group, i) => group.length > 1 &&
    !valleys.some((other, j) => j < i && isSameCurve(other, valleys[i])))
    .map((group) => `${group.slice(0, -1).map(({name}) => name).join(', ')} and ${group[group.length - 1].name} coincide`)
    .join('; ');

  // One row for all stages that are drawn alike.
  const byStage = (all) => {
    const named = all.map((valley) => ({...valley, name: valley.name.replace('_', ' ')}));
    const rows = [];
    for (const {key, values} of d3.nest().key((valley) => valley.stage).entries(named)) {
      const same = rows.find((row) => isSameStage(row.valleys, values));
      if (same) same.stages.push(Number(key));
      else rows.push({stages: [Number(key)], valleys: values});
    }
    return rows.map(({stages, valleys}) => ({valleys, note: coinciding(valleys),
      name: `${stages.length > 1 ? 'Stages' : 'Stage'} ${ranges(stages.sort((a, b) => a - b))}`}));
  };
  const lowest = (values) => values.reduce((best, value, index) => (value < values[best] ? index : best), 0);
  const at = (valley, index) => `${valley.clock_mhz[index]} MHz, ${units.energy(valley.energy_j[index])}`;

  const describe = ({name, valleys}) => `${name}: ` + valleys.map((valley) =>
    `${valley.name} least at ${at(valley, lowest(valley.energy_j))}`).join(', ');

  const sample = (kind) => {
    const svg = d3.select(document.createElementNS('http://www.w3.org/2000/svg', 'svg'))
      .attr({width: 30, height: 10, 'aria-hidden': true, class: 'valley-sample'});
    svg.append('line').attr({class: `valley ${kind}`, x1: 1, x2: 29, y1: 5, y2: 5, 'stroke-dasharray': kDashes[kind]});
    return svg.node();
  };

  const dotSample = () => {
    const svg = d3.select(document.createElementNS('http://www.w3.org/2000/svg', 'svg'))
      .attr({width: 12, height: 12, 'aria-hidden': true, class: 'valley-sample'});
    svg.append('circle').attr({class: 'least', cx: 6, cy: 6, r: 4.5});
    return svg.node();
  };

  const lineSample = () => {
    const svg = d3.select(document.createElementNS('http://www.w3.org/2000/svg', 'svg'))
      .attr({width: 8, height: 14, 'aria-hidden': true, class: 'valley-sample'});
    svg.append('line').attr({class: 'chosen', x1: 4, x2: 4, y1: 0, y2: 14});
    return svg.node();
  };

  // Clocks for the axis: no label touches another one, or the edge of the drawing.
  const ticksThatFit = (x, width) => {
    const most = Math.max(2, Math.floor((width - kMargin.left - kMargin.right) / kLabelWidth));
    let count = most;
    while (count > 1 && x.ticks(count).length > most) --count;
    return x.ticks(count).filter((clock) => x(clock) + kLabelWidth / 2 <= width);
  };

  class Chart {
    constructor(container, row, clocks, energies) {
      Object.assign(this, {container, row, clocks, energies});
      this.svg = d3.select(container).append('svg').attr({role: 'img', 'aria-label': describe(row)});
      this.draw();
      interaction.onResize(container, () => this.draw());
    }

    draw() {
      const {svg, row, clocks, energies} = this;
      svg.selectAll('*').remove();
      const width = Math.max(200, this.container.clientWidth);
      const bottom = kHeight - kMargin.bottom;
      svg.attr({viewBox: `0 0 ${width} ${kHeight}`, width, height: kHeight});
      const x = d3.scale.linear().domain(clocks).range([kMargin.left, width - kMargin.right]);
      const y = d3.scale.linear().domain(energies).range([bottom, kMargin.top]);
      svg.append('g').attr({class: 'grid', transform: `translate(0,${bottom})`}).call(d3.svg.axis().scale(x)
        .orient('bottom').tickValues(ticksThatFit(x, width)).innerTickSize(kMargin.top - bottom)
        .outerTickSize(0).tickPadding(7).tickFormat((value) => `${value} MHz`));
      svg.append('g').attr({class: 'grid', transform: `translate(${kMargin.left},0)`}).call(d3.svg.axis().scale(y)
        .orient('left').ticks(4).innerTickSize(kMargin.left + kMargin.right - width).outerTickSize(0).tickPadding(6)
        .tickFormat((value) => `${value} %`));
      const chosen = row.valleys[0].envpipe_clock_mhz;
      if (units.isNumber(chosen)) {
        svg.append('line').attr({class: 'chosen', x1: x(chosen), x2: x(chosen), y1: kMargin.top, y2: bottom});
      }
      row.valleys.forEach((valley) => this.drawValley(valley, x, y));
      svg.on('mousemove', () => this.hover(x.invert(d3.mouse(svg.node())[0]))).on('mouseleave', () => readout.hide());
    }

    drawValley(valley, x, y) {
      const values = shares(valley);
      const line = d3.svg.line().x((value, index) => x(valley.clock_mhz[index])).y((value) => y(value));
      this.svg.append('path').attr({class: `valley ${valley.kind}`, d: line(values),
        'stroke-dasharray': kDashes[valley.kind]});
      const least = lowest(values);
      this.svg.append('circle').attr({class: 'least', cx: x(valley.clock_mhz[least]), cy: y(values[least]), r: 4.5});
    }

    // Every kind at the profiled clock next to the pointer.
    hover(clockMhz) {
      const clocks = this.row.valleys[0].clock_mhz;
      const nearest = clocks[lowest(clocks.map((clock) => Math.abs(clock - clockMhz)))];
      const rows = this.row.valleys.map((valley) => {
        const index = valley.clock_mhz.indexOf(nearest);
        return [valley.name, index < 0 ? units.fixed(null)
          : `${units.energy(valley.energy_j[index])}, ${units.percent(shares(valley)[index], 1)}`];
      });
      readout.show(d3.event.clientX, d3.event.clientY, {title: `${this.row.name}, ${nearest} MHz`, rows});
    }
  }

  const legend = (valleys) => {
    const names = new Map(valleys.map((valley) => [valley.kind, valley.name.replace('_', ' ')]));
    const items = [...[...names].map(([kind, name]) => [sample(kind), name]), [dotSample(), 'least energy of an op']];
    if (valleys.some((valley) => units.isNumber(valley.envpipe_clock_mhz))) {
      items.push([lineSample(), 'clock that EnvPipe starts from']);
    }
    return items.map(([node, text]) => element('li', {}, [node, text]));
  };

  // Draws a chart for every different stage into `container`, and returns how many.
  const draw = (container, valleys) => {
    const rows = byStage(valleys).slice(0, kMostStages);
    const all = [].concat(...valleys.map((valley) => valley.clock_mhz));
    const values = [].concat(...valleys.map(shares));
    const [low, high] = d3.extent(values);
    const pad = 0.05 * (high - low) || 1;
    for (const row of rows) {
      const box = element('div', {class: 'valley-box'});
      container.append(element('figure', {}, [element('figcaption', {text: row.name}, row.note
        ? [element('span', {class: 'note', text: row.note})] : []), box]));
      new Chart(box, row, d3.extent(all), [low - pad, high + pad]);
    }
    return rows.length;
  };

  const caption = (valleys) => {
    const charts = byStage(valleys).length;
    return 'Energy of one op at each profiled clock, in per cent of the energy at the highest clock; waiting ' +
      'is not counted. The axis does not start at zero.' +
      (charts < d3.set(valleys.map(({stage}) => stage)).size() ? ' Stages whose drawings do not differ share one, with the figures of the first.' : '') +
      (charts > kMostStages ? ` ${kMostStages} of ${charts} drawings are shown.` : '');
  };

  return {draw, legend, caption};
})();
