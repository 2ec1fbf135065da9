// Curves of several arms in one plot, such as losses against tokens and against energy.
const learningCurves = (() => {
  const kParts = 18;
  // Curves that coincide show through each other.
  const kMarks = ['', '6 4', '2 3', '10 3 2 3'];
  const colour = (index) => `var(--part-${(index * 5) % kParts})`;
  const dashes = (index) => kMarks[index % kMarks.length];

  const sample = (index) => {
    const svg = d3.select(document.createElementNS('http://www.w3.org/2000/svg', 'svg')).attr({width: 26, height: 10, 'aria-hidden': true});
    svg.append('line').attr({class: 'learning', x1: 1, x2: 25, y1: 5, y2: 5, 'stroke-dasharray': dashes(index)})
      .style('stroke', colour(index));
    return svg.node();
  };

  const unitOf = (axis, largest) => (axis.quantity === 'energy' ? units.energyUnit(largest)
    : largest >= 1e9 ? {name: 'billion', factor: 1e-9} : largest >= 1e6 ? {name: 'million', factor: 1e-6}
      : largest >= 1e4 ? {name: 'thousand', factor: 1e-3} : {name: '', factor: 1});

  class Chart {
    constructor(container, plot) {
      this.container = container;
      this.plot = plot;
      this.xUnit = unitOf(plot.x, d3.max(plot.curves, (curve) => d3.max(curve.points, (point) => point[0])) || 1);
      this.svg = d3.select(container).append('svg').attr({role: 'img', 'aria-label': `${plot.title}: ` +
        plot.curves.map(({name, points}) => `${name} ends at ${units.significant(points[points.length - 1][1], 4)}`)
          .join(', ')});
      this.draw();
      interaction.onResize(container, () => this.draw());
    }

    draw() {
      const {plot, svg, xUnit} = this;
      svg.selectAll('*').remove();
      const width = Math.max(280, this.container.clientWidth);
      const height = width < 560 ? 260 : 320;
      const margin = {left: 52, right: 18, top: 26, bottom: 46};
      const points = [].concat(...plot.curves.map((curve) => curve.points));
      const [low, high] = d3.extent(points, (point) => point[1]);
      const pad = 0.05 * (high - low) || 0.05 * Math.abs(high) || 1;
      const x = d3.scale.linear().domain([0, d3.max(points, (point) => point[0]) * xUnit.factor])
        .range([margin.left, width - margin.right]);
      const y = d3.scale.linear().domain([low - pad, high + pad]).range([height - margin.bottom, margin.top]);
      svg.attr({viewBox: `0 0 ${width} ${height}`, width, height});
      this.drawAxes(x, y, width, height, margin);
      const line = d3.svg.line().x((point) => x(point[0] * xUnit.factor)).y((point) => y(point[1]));
      plot.curves.forEach((curve, index) => svg.append('path').attr({class: 'learning', d: line(curve.points),
        'stroke-dasharray': dashes(index)}).style('stroke', colour(index)));
      svg.on('mousemove', () => this.hover(x.invert(d3.mouse(svg.node())[0]) / xUnit.factor))
        .on('mouseleave', () => readout.hide());
    }

    drawAxes(x, y, width, height, margin) {
      const bottom = height - margin.bottom;
      this.svg.append('g').attr({class: 'grid', transform: `translate(0,${bottom})`}).call(d3.svg.axis().scale(x)
        .orient('bottom').ticks(Math.max(2, Math.floor(width / 110))).innerTickSize(margin.top - bottom)
        .outerTickSize(0).tickPadding(8));
      this.svg.append('g').attr({class: 'grid', transform: `translate(${margin.left},0)`}).call(d3.svg.axis().scale(y)
        .orient('left').ticks(5).innerTickSize(margin.left + margin.right - width).outerTickSize(0).tickPadding(8));
      const unit = this.plot.x.quantity === 'energy' ? `, ${this.xUnit.name}` : this.xUnit.name && `, ${this.xUnit.name}`;
      this.svg.append('text').attr({class: 'name', x: width - margin.right, y: height - 8, 'text-anchor': 'end'})
        .text(`${this.plot.x.name}${unit}`);
      this.svg.append('text').attr({class: 'name', x: 4, y: 14}).text(this.plot.y_name);
    }

    // Every curve's last point up to the pointer.
    hover(at) {
      const rows = this.plot.curves.map(({name, points}) => {
        const before = points.filter((point) => point[0] <= at);
        return [name, before.length ? units.significant(before[before.length - 1][1], 5) : units.fixed(NaN, 0)];
      });
      const amount = units.significant(at * this.xUnit.factor, 4);
      readout.show(d3.event.clientX, d3.event.clientY,
        {title: `${amount} ${this.xUnit.name} ${this.plot.x.quantity === 'energy' ? '' : this.plot.x.name}`, rows});
    }
  }

  // Appends a panel with curves to `parent`.
  const panel = (parent, plot) => {
    const chart = element('div', {class: 'bars'});
    parent.append(element('section', {class: 'panel', 'aria-label': plot.title}, [
      element('h2', {}, [`${plot.title} `, element('span', {class: 'basis', text: plot.basis})]),
      element('ul', {class: 'legend', 'aria-label': 'Legend'},
        plot.curves.map(({name}, index) => element('li', {}, [sample(index), name]))),
      chart, element('p', {class: 'caption', text: plot.caption})]));
    new Chart(chart, plot);
  };

  return {panel};
})();
