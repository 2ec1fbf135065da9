// Legends of a timeline: the colours of clocks and the marks of kinds.
const timelineLegend = (() => {
  // Gradient with ticks and, above it, how the chosen plan's busy time spreads over the clocks.
  const clockLegend = (ops, [low, high], colourOf) => {
    const [width, barsHeight, stripHeight] = [300, 30, 10];
    const svg = d3.select(document.createElementNS('http://www.w3.org/2000/svg', 'svg'))
      .attr({width: width + 40, height: barsHeight + stripHeight + 20, role: 'img',
        viewBox: `0 0 ${width + 40} ${barsHeight + stripHeight + 20}`,
        'aria-label': `Colours by clock. Busy time of the chosen plan: ${timelineData.describeClocks(ops)}`});
    const x = d3.scale.linear().domain(high > low ? [low, high] : [low - 1, high + 1]).range([16, width]);
    const bars = timelineData.timeByClock(ops);
    const total = d3.sum(bars, (bar) => bar.time_s);
    const y = d3.scale.linear().domain([0, d3.max(bars, (bar) => bar.time_s) || 1]).range([0, barsHeight - 4]);
    svg.selectAll('.bar').data(bars).enter().append('rect')
      .attr({class: 'bar', x: (bar) => x(bar.clock_mhz) - 2, width: 4, y: (bar) => barsHeight - Math.max(1.5, y(bar.time_s)),
        height: (bar) => Math.max(1.5, y(bar.time_s)), fill: (bar) => colourOf(bar.clock_mhz).fill})
      .append('title').text((bar) => `${bar.clock_mhz} MHz: ${units.percent(100 * bar.time_s / total, 1)} of busy time`);
    const steps = d3.range(60);
    const mhz = d3.scale.linear().domain([0, steps.length]).range(x.domain());
    svg.selectAll('.strip').data(steps).enter().append('rect')
      .attr({class: 'strip', x: (i) => x(mhz(i)), width: (width - 16) / steps.length + 0.6, y: barsHeight + 2,
        height: stripHeight, fill: (i) => colourOf(mhz(i + 0.5)).fill});
    const ticks = low === high ? [low] : x.ticks(4);
    svg.selectAll('text').data(ticks).enter().append('text')
      .attr({x: (tick) => x(tick), y: barsHeight + stripHeight + 15, 'text-anchor': 'middle'})
      .text((tick, i) => (i === ticks.length - 1 ? `${tick} MHz` : String(tick)));
    return svg.node();
  };

  const kindLegend = (kinds) => kinds.map((kind) => {
    const svg = d3.select(document.createElementNS('http://www.w3.org/2000/svg', 'svg'))
      .attr({width: 26, height: 14, 'aria-hidden': true});
    svg.append('rect').attr({width: 26, height: 14, fill: '#b83289'});
    for (const [from, to, fill] of timelineData.kKindMarks[kind]) {
      svg.append('rect').attr({x: 26 * from, width: 26 * (to - from), height: 3, y: 11, fill});
    }
    return element('li', {}, [svg.node(), `${kind} ${timelineData.kKindNames[kind]}`]);
  });

  return {clocks: clockLegend, kinds: kindLegend};
})();
