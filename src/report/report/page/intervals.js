// Differences from a baseline with their intervals, a row each, about a line at zero.
const intervalPlot = (() => {
  const kRowHeight = 28;
  const kGroupHeight = 30;

  class Chart {
    constructor(container, plot) {
      this.container = container;
      this.plot = plot;
      this.svg = d3.select(container).append('svg').attr({role: 'img', 'aria-label': `${plot.title}: ` +
        plot.groups.map((group) => group.rows.map((row) => `${group.name}, ${row.name}: ${row.text}`).join(', '))
          .join(', ')});
      this.draw();
      interaction.onResize(container, () => this.draw());
    }

    // Texts stand below their row where there is little room.
    draw() {
      const {plot, svg} = this;
      svg.selectAll('*').remove();
      const width = Math.max(280, this.container.clientWidth);
      const narrow = width < 640;
      const rowHeight = narrow ? kRowHeight + 20 : kRowHeight;
      const longest = d3.max(plot.groups, (group) => d3.max(group.rows, (row) => row.name.length)) || 0;
      const margin = {left: narrow ? 30 : Math.min(0.3 * width, 24 + 7.4 * longest), right: narrow ? 30 : 300, top: 4,
        bottom: 30};
      const rows = d3.sum(plot.groups, (group) => group.rows.length);
      const height = margin.top + kGroupHeight * plot.groups.length + rowHeight * rows + margin.bottom;
      const ends = [0].concat(...plot.groups.map((group) => [].concat(...group.rows.map((row) =>
        [row.mean, row.low, row.high].filter(units.isNumber)))));
      const [low, high] = d3.extent(ends);
      const pad = 0.06 * (high - low) || 1;
      const x = d3.scale.linear().domain([low - pad, high + pad]).range([margin.left, width - margin.right]);
      svg.attr({viewBox: `0 0 ${width} ${height}`, width, height});
      const bottom = height - margin.bottom;
      const tickCount = Math.max(2, Math.floor((width - margin.left - margin.right) / 90));
      const tickSteps = x.ticks(tickCount);
      // As many digits as tell two ticks apart.
      const digits = Math.max(0, -Math.floor(Math.log10(tickSteps[1] - tickSteps[0]) + 1e-9)) || 0;
      svg.append('g').attr({class: 'grid', transform: `translate(0,${bottom})`}).call(d3.svg.axis().scale(x)
        .orient('bottom').ticks(tickCount)
        .innerTickSize(margin.top - bottom).outerTickSize(0).tickPadding(8)
        .tickFormat((value) => `${units.signed(value, digits)} %`));
      if (!narrow) svg.append('line').attr({class: 'zero', x1: x(0), x2: x(0), y1: margin.top, y2: bottom});
      let top = margin.top;
      for (const group of plot.groups) {
        svg.append('text').attr({class: 'total', x: 2, y: top + 20}).text(group.name);
        top += kGroupHeight;
        for (const row of group.rows) {
          this.drawRow(row, x, top, width, narrow);
          top += rowHeight;
        }
      }
    }

    drawRow(row, x, top, width, narrow) {
      const middle = top + kRowHeight / 2 + (narrow ? 12 : 0);
      // Below a row's text; a line over the whole height would cross the texts.
      if (narrow) this.svg.append('line').attr({class: 'zero', x1: x(0), x2: x(0), y1: middle - 9, y2: middle + 12});
      const css = `difference ${row.sense}`;
      const text = narrow ? `${row.name}: ${row.text}` : row.text;
      if (!narrow) this.svg.append('text').attr({class: 'name', x: 14, y: middle + 4}).text(row.name);
      if (units.isNumber(row.low)) {
        this.svg.append('line').attr({class: css, x1: x(row.low), x2: x(row.high), y1: middle, y2: middle});
        for (const end of [row.low, row.high]) {
          this.svg.append('line').attr({class: css, x1: x(end), x2: x(end), y1: middle - 5, y2: middle + 5});
        }
      }
      if (units.isNumber(row.mean)) {
        this.svg.append('circle').attr({class: css, cx: x(row.mean), cy: middle, r: 4.5});
      }
      this.svg.append('text').attr(narrow ? {class: 'name', x: 8, y: top + 12}
        : {class: 'name', x: width - 292, y: middle + 4}).text(text);
    }
  }

  // Appends a panel with intervals to `parent`.
  const panel = (parent, plot) => {
    const chart = element('div', {class: 'bars'});
    parent.append(element('section', {class: 'panel', 'aria-label': plot.title}, [
      element('h2', {}, [`${plot.title} `, element('span', {class: 'basis', text: plot.basis})]),
      chart, element('p', {class: 'caption', text: plot.caption})]));
    new Chart(chart, plot);
  };

  return {panel};
})();
