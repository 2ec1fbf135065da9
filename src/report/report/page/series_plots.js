// Small plots of series of points or lines, next to each other, with one legend for all.
const seriesPlots = (() => {
  const kParts = 18;
  const kHeight = 240;
  const kMargin = {left: 56, right: 14, top: 24, bottom: 40};
  const kNear = 28;
  const kDashes = ['', '6 4', '2 3', '10 3 2 3'];
  const kShapes = ['circle', 'diamond', 'triangle-up', 'square', 'cross', 'triangle-down'];
  const colour = (index) => `var(--part-${(index * 5) % kParts})`;
  const shape = (index, size) => d3.svg.symbol().type(kShapes[index % kShapes.length]).size(size)();

  const unitFor = (unit, largest) => {
    if (unit === 'time') return units.timeUnit(largest);
    if (unit === 'energy') return units.energyUnit(largest);
    return {name: unit === 'percent' ? '%' : '', factor: 1};
  };

  const draw = (svg, {line, index}, path, place) => {
    if (line) {
      svg.append('path').attr({class: 'series', d: path, 'stroke-dasharray': kDashes[index % kDashes.length]})
        .style('stroke', colour(index));
    } else {
      place.forEach(([x, y]) => svg.append('path').attr({class: 'series-mark', d: shape(index, 42),
        transform: `translate(${x},${y})`}).style('fill', colour(index)));
    }
  };

  const sample = (series) => {
    const svg = d3.select(document.createElementNS('http://www.w3.org/2000/svg', 'svg'))
      .attr({width: 26, height: 12, 'aria-hidden': true});
    draw(svg, series, 'M1,6L25,6', [[13, 6]]);
    return svg.node();
  };

  class Chart {
    constructor(container, plot, {x, y}) {
      Object.assign(this, {container, plot, axes: {x, y}});
      this.points = [].concat(...plot.series.map((series) => series.points.map(([px, py]) => ({x: px, y: py, series}))));
      this.xUnit = unitFor(x.unit, d3.max(this.points, (point) => Math.abs(point.x)));
      this.yUnit = unitFor(y.unit, d3.max(this.points, (point) => Math.abs(point.y)));
      this.svg = d3.select(container).append('svg').attr({role: 'img', 'aria-label': this.describe()});
      this.draw();
      interaction.onResize(container, () => this.draw());
    }

    text({name}, unit, value) {
      return `${units.significant(value * unit.factor, 4)}${unit.name && ` ${unit.name}`}`;
    }

    describe() {
      const range = (axis, unit, of) => d3.extent(this.points, of).map((value) => this.text(axis, unit, value)).join(' to ');
      return `${this.plot.name}: ${this.plot.series.map(({name, points}) => `${name}, ${points.length} points`).join('; ')}. ` +
        `${this.axes.x.name} ${range(this.axes.x, this.xUnit, (point) => point.x)}, ` +
        `${this.axes.y.name} ${range(this.axes.y, this.yUnit, (point) => point.y)}`;
    }

    scale(of, unit, range) {
      const [low, high] = d3.extent(this.points, (point) => point[of] * unit.factor);
      const pad = 0.05 * (high - low) || 0.05 * Math.abs(high) || 1;
      return d3.scale.linear().domain([low - pad, high + pad]).range(range);
    }

    draw() {
      const {svg, plot, xUnit, yUnit} = this;
      svg.selectAll('*').remove();
      const width = Math.max(220, this.container.clientWidth);
      svg.attr({viewBox: `0 0 ${width} ${kHeight}`, width, height: kHeight});
      this.x = this.scale('x', xUnit, [kMargin.left, width - kMargin.right]);
      this.y = this.scale('y', yUnit, [kHeight - kMargin.bottom, kMargin.top]);
      this.drawAxes(width);
      const place = ([x, y]) => [this.x(x * xUnit.factor), this.y(y * yUnit.factor)];
      plot.series.forEach((series) => {
        const places = series.points.map(place);
        draw(svg, series, d3.svg.line()(places), places);
      });
      svg.on('mousemove', () => this.hover(d3.mouse(svg.node()))).on('mouseleave', () => readout.hide());
    }

    drawAxes(width) {
      const bottom = kHeight - kMargin.bottom;
      const withUnit = ({name}, unit) => (unit.name ? `${name}, ${unit.name}` : name);
      this.svg.append('g').attr({class: 'grid', transform: `translate(0,${bottom})`}).call(d3.svg.axis().scale(this.x)
        .orient('bottom').ticks(Math.max(2, Math.floor(width / 80))).innerTickSize(kMargin.top - bottom)
        .outerTickSize(0).tickPadding(7));
      this.svg.append('g').attr({class: 'grid', transform: `translate(${kMargin.left},0)`}).call(d3.svg.axis()
        .scale(this.y).orient('left').ticks(5).innerTickSize(kMargin.left + kMargin.right - width).outerTickSize(0)
        .tickPadding(6));
      this.svg.append('text').attr({class: 'name', x: width - kMargin.right, y: kHeight - 5, 'text-anchor': 'end'})
        .text(withUnit(this.axes.x, this.xUnit));
      this.svg.append('text').attr({class: 'name', x: 2, y: 12})
        .text(withUnit(this.axes.y, this.yUnit));
    }

    // The point next to the pointer, where one is near.
    hover([left, top]) {
      const distance = (point) => Math.hypot(this.x(point.x * this.xUnit.factor) - left,
        this.y(point.y * this.yUnit.factor) - top);
      const nearest = this.points.reduce((best, point) => (distance(point) < distance(best) ? point : best));
      if (distance(nearest) > kNear) return readout.hide();
      return readout.show(d3.event.clientX, d3.event.clientY, {title: nearest.series.name, rows: [
        [this.axes.x.name, this.text(this.axes.x, this.xUnit, nearest.x)],
        [this.axes.y.name, this.text(this.axes.y, this.yUnit, nearest.y)]]});
    }
  }

  // Appends a panel with plots to `parent`.
  const panel = (parent, group) => {
    const names = d3.set([].concat(...group.plots.map(({series}) => series.map(({name}) => name)))).values();
    const known = new Map();
    group.plots.forEach(({series}) => series.forEach((one) => {
      one.index = names.indexOf(one.name);
      known.set(one.name, one);
    }));
    const boxes = group.plots.map(() => element('div', {class: 'series-box'}));
    parent.append(element('section', {class: 'panel', 'aria-label': group.title}, [
      element('h2', {}, [`${group.title} `, element('span', {class: 'basis', text: group.basis})]),
      element('ul', {class: 'legend', 'aria-label': 'Legend'},
        names.map((name) => element('li', {}, [sample(known.get(name)), name]))),
      element('div', {class: 'series-plots'}, group.plots.map(({name}, i) =>
        element('figure', {}, [element('figcaption', {text: name}), boxes[i]]))),
      element('p', {class: 'caption', text: group.caption})]));
    group.plots.forEach((plot, i) => new Chart(boxes[i], plot, group));
  };

  return {panel};
})();
