// Amounts that add up, one bar a row, with the same numbers as a table below.
const stackedBars = (() => {
  const kParts = 18;
  const kRowHeight = 30;
  const kBarHeight = 20;
  const isWaiting = (name) => name.startsWith('waiting');

  const byteUnit = () => ({name: 'GiB', factor: 1 / 2 ** 30});
  const unitFor = (quantity, largest) => ({time: units.timeUnit, energy: units.energyUnit,
    account_energy: () => ({name: 'kWh', factor: 1 / 3.6e6}), bytes: byteUnit})[quantity](largest);
  const amountText = (amount, unit) =>
    `${units.fixed(amount * unit.factor, units.decimals(amount * unit.factor, 4))}\u00a0${unit.name}`;

  const total = (row) => d3.sum(row.amounts);
  // Parts that nowhere amount to anything are left out.
  const usedParts = (bars) => bars.parts.map((name, index) => ({name, index}))
    .filter(({index}) => bars.rows.some((row) => row.amounts[index] > 0));
  // A part has the same colour on every page, whichever other parts stand there; names without a place share the rest.
  const kPlaces = ['linear', 'attention', 'normalisation', 'elementwise', 'experts', 'embedding', 'cross entropy',
    'recomputation', 'tensor parallel', 'context parallel', 'expert parallel', 'sharded weights', 'sharded gradients',
    'pipeline', 'host', 'gradient sums', 'gradients', 'optimizer',
    'weights', 'activations', 'buffers', 'margin', 'static power', 'multiprocessors', 'memory', 'links',
    'gradients and optimizer', 'offload'];
  const colour = ({name}, place) => {
    if (isWaiting(name)) return '';
    const known = kPlaces.indexOf(name);
    return `var(--part-${(known >= 0 ? known : place) % kParts})`;
  };

  const legend = (parts) => element('ul', {class: 'legend', 'aria-label': 'Legend'}, parts.map((part, place) => {
    const swatch = element('span', {class: `swatch-sample${isWaiting(part.name) ? ' waiting' : ''}`});
    if (!isWaiting(part.name)) swatch.style.background = colour(part, place);
    return element('li', {}, [swatch, part.name]);
  }));

  const table = (bars, parts, unit) => {
    const text = (amount) => units.fixed(amount * unit.factor, units.decimals(amount * unit.factor, 4));
    return dataTable([
      {head: [''], text: (row) => row.name},
      ...parts.map((part) => ({head: [part.name, unit.name], text: (row) => text(row.amounts[part.index])})),
      {head: ['total', unit.name], text: (row) => text(total(row))},
    ], bars.rows);
  };

  // Ranks next to each other whose amounts look the same are one row: "ranks 1 to 14".
  const folded = ({rows, ...bars}) => {
    const numberOf = ({name}) => (/^rank \d+$/.test(name) ? Number(name.slice(5)) : NaN);
    const groups = [];
    for (const row of rows) {
      const last = groups[groups.length - 1];
      const follows = last && numberOf(row) === numberOf(last[last.length - 1]) + 1;
      const close = (amount, i) => Math.abs(amount - last[0].amounts[i]) <= 5e-4 * total(row);
      if (follows && row.amounts.every(close)) last.push(row);
      else groups.push([row]);
    }
    return {...bars, rows: groups.map((group) => (group.length === 1 ? group[0]
      : {...group[0], name: `ranks ${ranges(group.map(numberOf))}`}))};
  };

  class Chart {
    constructor(container, bars, parts) {
      this.container = container;
      this.bars = bars;
      this.parts = parts;
      this.largest = d3.max([...bars.rows.map(total), bars.limit || 0]) || 1;
      this.unit = unitFor(bars.quantity, this.largest);
      this.svg = d3.select(container).append('svg').attr({role: 'img', 'aria-label':
        `${bars.title}: ${bars.rows.map((row) => `${row.name} ${amountText(total(row), this.unit)}`).join(', ')}`});
      this.draw();
      interaction.onResize(container, () => this.draw());
    }

    draw() {
      const {bars, svg} = this;
      svg.selectAll('*').remove();
      const width = Math.max(300, this.container.clientWidth);
      const names = d3.max(bars.rows, (row) => row.name.length) || 0;
      const totals = d3.max(bars.rows, (row) => amountText(total(row), this.unit).length) || 0;
      const margin = {left: Math.min(0.3 * width, 14 + 7.4 * names), right: Math.max(92, 14 + 8.8 * totals),
        top: bars.limit ? 20 : 6, bottom: 26};
      const height = margin.top + kRowHeight * bars.rows.length + margin.bottom;
      svg.attr({viewBox: `0 0 ${width} ${height}`, width, height});
      const x = d3.scale.linear().domain([0, this.largest * this.unit.factor]).range([margin.left, width - margin.right]);
      const bottom = height - margin.bottom;
      svg.append('g').attr({class: 'grid', transform: `translate(0,${bottom})`}).call(d3.svg.axis().scale(x)
        .orient('bottom').ticks(Math.max(2, Math.floor(width / 130))).innerTickSize(margin.top - bottom).outerTickSize(0)
        .tickPadding(8).tickFormat((value) => `${value} ${this.unit.name}`));
      bars.rows.forEach((row, i) => this.drawRow(row, x, margin.top + kRowHeight * i, width));
      if (bars.limit) this.drawLimit(x(bars.limit * this.unit.factor), margin.top, bottom);
    }

    // Totals stand in a column next to the plot, where no limit crosses them.
    drawRow(row, x, top, width) {
      const middle = top + kRowHeight / 2 + 4;
      this.svg.append('text').attr({class: 'name', x: 2, y: middle}).text(row.name);
      let sum = 0;
      for (const [place, part] of this.parts.entries()) {
        const amount = row.amounts[part.index];
        if (!(amount > 0)) continue;
        const from = x(sum * this.unit.factor);
        sum += amount;
        const piece = this.svg.append('rect').attr({class: `piece${isWaiting(part.name) ? ' waiting' : ''}`, x: from,
          y: top + (kRowHeight - kBarHeight) / 2, width: Math.max(0.5, x(sum * this.unit.factor) - from),
          height: kBarHeight});
        if (!isWaiting(part.name)) piece.style('fill', colour(part, place));
        piece.on('mousemove', () => readout.show(d3.event.clientX, d3.event.clientY, {title: part.name, rows: [
          [row.name, amountText(amount, this.unit)],
          ['share', units.percent(100 * amount / total(row), 1)]]})).on('mouseleave', () => readout.hide());
      }
      this.svg.append('text').attr({class: 'total', x: width - 2, y: middle, 'text-anchor': 'end'})
        .text(amountText(sum, this.unit));
    }

    drawLimit(x, top, bottom) {
      this.svg.append('line').attr({class: 'limit', x1: x, x2: x, y1: top, y2: bottom});
      this.svg.append('text').attr({class: 'limit-name', x, y: top - 6, 'text-anchor': 'middle'})
        .text(this.bars.limit_name);
    }
  }

  // Appends a panel with bars to `parent`.
  const panel = (parent, all) => {
    const bars = folded(all);
    const parts = usedParts(bars);
    const chart = element('div', {class: 'bars'});
    const box = element('div', {class: 'table-box', tabindex: '0', role: 'region', 'aria-label': bars.title});
    const section = element('section', {class: 'panel', 'aria-label': bars.title}, [
      element('h2', {}, [`${bars.title} `, element('span', {class: 'basis', text: bars.basis})]),
      legend(parts), chart, element('p', {class: 'caption', text: bars.caption}),
      element('details', {}, [element('summary', {text: 'The same numbers as a table'}), box])]);
    parent.append(section);
    const drawn = new Chart(chart, bars, parts);
    box.append(table(bars, parts, drawn.unit));
  };

  return {panel};
})();
