// The time-energy plot: the frontier and its lower bound, plans, policies, measured points and the baseline. It draws
// a model: {curve, separateBound: lists of {time_s, energy_j}, fastest first; segments: stretches of the curve within one
// order, [{order, points}], empty or absent where there is one order; points: [{type, name, basis, time_s,
// energy_j, label, chosen, ...}]; baseline: what savings are against, or null; boundName, boundBasis, regionLabel,
// summary: texts; keyed: points with a label have a number instead, which a list below the plot names}.
const frontierPlot = (() => {
  const kMaxZoom = 2000;
  const kPickPx = 22;
  const kSymbols = {plan: 'circle', policy: 'diamond', 'own-order': 'diamond', baseline: 'square', measured: 'cross'};
  const symbol = (type, size) => d3.svg.symbol().type(kSymbols[type]).size(size)();

  const polyline = d3.svg.line().x((point) => point.x).y((point) => point.y);

  // Orders differ by colour and by dashes; after six they repeat.
  const orderClass = (order) => `order-${order % 6}`;

  const curvePoints = ({time_s, energy_j}) => time_s.map((time, i) => ({time_s: time, energy_j: energy_j[i]}));

  const padded = ([low, high], share) => {
    const pad = (high - low || Math.abs(high) || 1) * share;
    return [low - pad, high + pad];
  };

  const energyAt = (curve, time_s) => {
    const i = d3.bisector((point) => point.time_s).left(curve, time_s);
    if (i === 0) return curve.length && curve[0].time_s === time_s ? curve[0].energy_j : null;
    if (i >= curve.length) return curve[curve.length - 1].energy_j;
    const [a, b] = [curve[i - 1], curve[i]];
    return a.energy_j + (b.energy_j - a.energy_j) * (time_s - a.time_s) / (b.time_s - a.time_s);
  };

  // Points every few pixels along a line.
  const along = (points) => points.flatMap((point, i) => {
    const kStepPx = 8;
    const kMaxSteps = 400;
    const next = points[i + 1] || point;
    const steps = Math.min(kMaxSteps, Math.ceil(Math.hypot(next.x - point.x, next.y - point.y) / kStepPx)) || 1;
    return d3.range(steps).map((step) => ({x: point.x + (next.x - point.x) * step / steps,
      y: point.y + (next.y - point.y) * step / steps}));
  });

  // Points that cover each other share a label: of many labels at one place none says which point it names. Numbers do
  // where points only touch.
  const withSharedLabels = (keyed) => (labels, point) => {
    const kSamePx = keyed ? 10 : 4;
    const same = labels.find((other) => (keyed || !other.isTarget && !point.isTarget) &&
      Math.hypot(other.x - point.x, other.y - point.y) < kSamePx);
    if (same) same.text = [...same.text.split(', '), point.label].sort((a, b) => a - b).join(', ');
    else labels.push({...point, text: point.label});
    return labels;
  };

  // Puts each label where it covers no obstacle, no other label and no border, and where no other labelled point is
  // nearer than its own; failing that farther off, with a leader line; one that finds no place is left out.
  const placeLabels = (labels, obstacles, [left, top, right, bottom]) => {
    const kHeight = 14;
    const kNearPx = [10, 18];
    const kLeaderPx = [30, 46, 64, 90, 120, 150];
    const taken = obstacles.map(({x, y}) => [x - 6, y - 6, x + 6, y + 6]);
    const spotsAt = ({x, y, width}, distance) => [
      [x + distance, y - kHeight / 2], [x - width / 2, y - distance - kHeight + 2], [x - width / 2, y + distance - 2],
      [x - distance - width, y - kHeight / 2], [x + distance, y - distance - kHeight / 2],
      [x + distance, y + distance - kHeight / 2], [x - distance - width, y - distance - kHeight / 2],
      [x - distance - width, y + distance - kHeight / 2], [x, y - distance - kHeight], [x, y + distance],
      [x - width, y - distance - kHeight], [x - width, y + distance],
    ].map(([x0, y0]) => [x0, y0, x0 + width, y0 + kHeight]);
    const isInside = ([x0, y0, x1, y1]) => x0 >= left && x1 <= right && y0 >= top && y1 <= bottom;
    const isFree = (a) => !taken.some((b) => a[0] < b[2] && a[2] > b[0] && a[1] < b[3] && a[3] > b[1]);
    const distanceTo = ([x0, y0, x1, y1], {x, y}) =>
      Math.hypot(Math.max(x0 - x, 0, x - x1), Math.max(y0 - y, 0, y - y1));
    const isNearestOwn = (box, own) => labels.every((other) => other === own ||
      distanceTo(box, other) > distanceTo(box, own));
    const leaderEnd = ({x, y}, [x0, y0, x1, y1]) => ({x: Math.max(x0, Math.min(x1, x)), y: Math.max(y0, Math.min(y1, y))});
    const isLeaderClear = (own, box) => along([own, leaderEnd(own, box)]).every(({x, y}) =>
      labels.every((other) => other === own || Math.hypot(other.x - x, other.y - y) > 7));
    const fits = (box) => isInside(box) && isFree(box);
    return labels.flatMap((label) => {
      const near = kNearPx.flatMap((distance) => spotsAt(label, distance))
        .find((box) => fits(box) && isNearestOwn(box, label));
      const far = near ? [] : kLeaderPx.flatMap((distance) => spotsAt(label, distance)).filter(fits);
      const spot = near || far.find((box) => isLeaderClear(label, box)) || far[0];
      if (!spot) return [];
      taken.push(spot);
      const [x0, , , y1] = spot;
      const leader = near ? null : leaderEnd(label, spot);
      return [{...label, labelX: x0, labelY: y1 - 3, leader}];
    });
  };

  class Plot {
    constructor(container, model) {
      this.container = container;
      this.selected = -1;
      this.svg = d3.select(container).append('svg').attr({tabindex: 0, role: 'application',
        'aria-roledescription': 'plot'});
      this.zoom = d3.behavior.zoom().scaleExtent([1, kMaxZoom]).on('zoom', interaction.perFrame(() => this.draw()));
      interaction.attachZoom(this.svg.node(), this.zoom);
      this.svg.on('mousemove', () => this.hover(d3.mouse(this.svg.node())))
        .on('mouseleave', () => this.clearCursor()).on('blur', () => this.clearCursor());
      this.svg.node().addEventListener('keydown', (event) => this.onKey(event));
      if (model.keyed) {
        this.key = element('ol', {class: 'legend marks plot-key', 'aria-label': 'Points of the plot'});
        container.after(this.key);
      }
      this.take(model);
      this.layout();
    }

    take(model) {
      this.model = model;
      this.compare = model.baseline ? relative(model.baseline) : null;
      this.curve = model.curve;
      this.separateBound = model.separateBound;
      this.bound = this.separateBound.length ? this.separateBound : this.curve;
      this.points = model.points.filter((point) => units.isNumber(point.time_s) && units.isNumber(point.energy_j))
        .sort((a, b) => a.time_s - b.time_s || b.energy_j - a.energy_j);
      this.svg.attr('aria-label', model.summary);
      if (this.key) this.number();
    }

    // Numbers the points with a label, fastest first, and lists them.
    number() {
      const named = this.points.filter((point) => point.label);
      named.forEach((point, i) => {
        point.label = String(i + 1);
      });
      this.key.replaceChildren(...named.map((point) => {
        const figures = this.compare
          ? `${units.time(point.time_s, 5)} (${units.signedPercent(this.compare.slowdown(point.time_s), 2)}), ` +
            `${units.percent(this.compare.saving(point.energy_j), 2)} saved`
          : `${units.time(point.time_s, 5)}, ${units.energy(point.energy_j, 5)}`;
        return element('li', {class: point.isTarget ? 'target' : ''}, [element('b', {text: point.label}),
          pointSample(point.type, `${point.type}${point.chosen ? ' chosen' : ''}`),
          element('span', {}, [element('strong', {text: point.name}), ` ${figures}`])]);
      }));
    }

    // Draws another model; a plot that is zoomed keeps what it shows.
    update(model) {
      this.take(model);
      if (this.zoom.scale() === 1) this.layout();
      else this.draw();
    }

    layout() {
      const everything = [...this.points, ...this.curve, ...this.separateBound];
      this.timeExtent = padded(d3.extent(everything, (point) => point.time_s), 0.05);
      this.energyExtent = padded(d3.extent(everything, (point) => point.energy_j), 0.07);
      this.timeUnit = units.timeUnit(this.timeExtent[1]);
      this.energyUnit = units.energyUnit(this.energyExtent[1]);
      const width = Math.max(260, this.container.clientWidth);
      const narrow = width < 560;
      this.height = narrow ? 340 : 440;
      this.width = width;
      // A narrow plot has its titles above the axes, where they cover no tick.
      this.narrow = narrow;
      this.margin = {left: narrow ? 52 : 66, right: narrow ? 54 : 64, top: narrow ? 30 : 14, bottom: 46};
      this.xRange = [this.margin.left, width - this.margin.right];
      this.yRange = [this.height - this.margin.bottom, this.margin.top];
      const scale = (extent, unit, range) => d3.scale.linear().domain(extent.map((v) => v * unit.factor)).range(range);
      this.x = scale(this.timeExtent, this.timeUnit, this.xRange);
      this.y = scale(this.energyExtent, this.energyUnit, this.yRange);
      this.zoom.x(this.x).y(this.y).size([width, this.height]);
      this.view = {zoom: this.zoom, x: this.xRange, y: [...this.yRange].reverse()};
      this.svg.attr({viewBox: `0 0 ${width} ${this.height}`, height: this.height});
      this.draw();
    }

    place({time_s, energy_j}) {
      return {x: this.x(time_s * this.timeUnit.factor), y: this.y(energy_j * this.energyUnit.factor)};
    }

    draw() {
      interaction.clampTranslate(this.view);
      this.svg.selectAll('*').remove();
      const [left, right] = this.xRange;
      const [bottom, top] = this.yRange;
      this.svg.append('clipPath').attr('id', 'frontier-clip').append('rect')
        .attr({x: left, y: top, width: right - left, height: bottom - top});
      this.svg.append('rect').attr({width: this.width, height: this.height, fill: 'transparent'});
      this.drawAxes();
      const plot = this.svg.append('g').attr('clip-path', 'url(#frontier-clip)');
      this.drawCurves(plot);
      const placed = this.points.map((point) => ({...point, ...this.place(point)}));
      plot.append('path').attr({class: 'drop', d: polyline(this.dropPoints(placed)) || ''});
      this.drawPoints(plot, placed);
      this.cursor = this.svg.append('g').attr('class', 'cursor');
      this.container.dataset.zoom = this.zoom.scale().toPrecision(4);
    }

    drawAxes() {
      const [left, right] = this.xRange;
      const [bottom, top] = this.yRange;
      const xTicks = Math.max(3, Math.floor((right - left) / 100));
      const yTicks = Math.max(3, Math.floor((bottom - top) / 56));
      const axis = (scale, orient, ticks, size) =>
        d3.svg.axis().scale(scale).orient(orient).ticks(ticks).innerTickSize(-size).outerTickSize(0).tickPadding(8);
      const append = (name, x, y, made) => this.svg.append('g')
        .attr({class: `axis ${name}`, transform: `translate(${x},${y})`}).call(made);
      append('x', 0, bottom, axis(this.x, 'bottom', xTicks, bottom - top));
      append('y', left, 0, axis(this.y, 'left', yTicks, right - left));
      const title = (text, transform, anchor) => this.svg.append('text')
        .attr({class: 'axis-title', transform, 'text-anchor': anchor}).text(text);
      title(`Iteration time (${this.timeUnit.name})`, `translate(${(left + right) / 2},${this.height - 8})`, 'middle');
      const upright = `translate(14,${(top + bottom) / 2}) rotate(-90)`;
      title(`Energy per iteration (${this.energyUnit.name})`, this.narrow ? 'translate(4,14)' : upright,
        this.narrow ? 'start' : 'middle');
      if (!this.compare) return;
      const toSaving = (energy) => this.compare.saving(energy / this.energyUnit.factor);
      const saving = d3.scale.linear().domain(this.y.domain().map(toSaving)).range(this.y.range());
      const format = saving.tickFormat(yTicks);
      append('saving', right, 0, axis(saving, 'right', yTicks, 0)
        .tickFormat((value) => `${format(value).replace('-', '\u2212')}%`));
      title(this.narrow ? 'Saving' : `Saving against ${this.model.baselineName || 'baseline'}`, this.narrow ? `translate(${this.width - 4},14)`
        : `translate(${this.width - 6},${(top + bottom) / 2}) rotate(-90)`, this.narrow ? 'end' : 'middle');
    }

    drawCurves(plot) {
      if (!this.bound.length) return;
      const [left, right] = this.xRange;
      const [bottom, top] = this.yRange;
      const bound = this.bound.map((point) => this.place(point));
      const far = right + 10;
      const last = bound[bound.length - 1];
      const region = [{x: left - 10, y: top - 10}, {x: bound[0].x, y: top - 10}, ...bound,
        {x: Math.max(far, last.x), y: last.y}, {x: Math.max(far, last.x), y: bottom + 10}, {x: left - 10, y: bottom + 10}];
      plot.append('path').attr({class: 'region', d: `${polyline(region)}Z`});
      if (this.model.regionLabel && !this.narrow && this.zoom.scale() === 1 && bottom - bound[0].y > 70) {
        plot.append('text').attr({class: 'region-label', x: left + 14, y: bottom - 14})
          .text(this.model.regionLabel);
      }
      if (this.separateBound.length) plot.append('path').attr({class: 'bound', d: polyline(bound)});
      const {segments = []} = this.model;
      if (!segments.length) {
        plot.append('path').attr({class: 'curve', d: polyline(this.curve.map((point) => this.place(point)))});
      }
      for (const {order, points} of segments) {
        plot.append('path').attr({class: `curve ${orderClass(order)}`,
          d: polyline(points.map((point) => this.place(point)))});
      }
    }

    // The way from the baseline to the point that is its target, as points along it: none without both.
    dropPoints(placed) {
      const kSteps = 24;
      const from = placed.find((point) => point.type === 'baseline');
      const to = placed.find((point) => point.isTarget);
      if (!from || !to) return [];
      return d3.range(kSteps + 1).map((i) => ({x: from.x + (to.x - from.x) * i / kSteps,
        y: from.y + (to.y - from.y) * i / kSteps}));
    }

    drawPoints(plot, placed) {
      const size = (point) => (point.type === 'plan' ? (point.chosen ? 110 : 42) : 78);
      const order = {plan: 0, policy: 1, 'own-order': 1, baseline: 2, measured: 4};
      plot.selectAll('.point')
        .data([...placed].sort((a, b) => (a.chosen ? 3 : order[a.type]) - (b.chosen ? 3 : order[b.type])))
        .enter().append('path')
        .attr('class', (point) => `point ${point.type}${point.chosen ? ' chosen' : ''}`)
        .attr('transform', (point) => `translate(${point.x},${point.y})`)
        .attr('d', (point) => symbol(point.type, size(point)));

      const [left, right] = this.xRange;
      const [bottom, top] = this.yRange;
      const isVisible = ({x, y}) => x >= left && x <= right && y >= top && y <= bottom;
      const wanted = placed.filter((point) => isVisible(point) && point.label)
        .sort((a, b) => Number(Boolean(b.chosen)) - Number(Boolean(a.chosen)) || order[b.type] - order[a.type])
        .reduce(withSharedLabels(this.model.keyed), []);
      const probe = plot.append('text').attr('class', 'label');
      for (const label of wanted) label.width = probe.text(label.text).node().getComputedTextLength() + 4;
      probe.remove();
      const curve = along(this.curve.map((point) => this.place(point))).filter(isVisible);
      const obstacles = [...placed.filter(isVisible), ...curve, ...this.dropPoints(placed)];
      const labels = placeLabels(wanted, obstacles, [left, top, right, bottom]);
      plot.selectAll('.leader').data(labels.filter((label) => label.leader)).enter().append('path')
        .attr({class: 'leader', d: (label) => polyline([label, label.leader])});
      plot.selectAll('text.point-label').data(labels).enter().append('text')
        .attr({class: (label) => `label point-label${label.isTarget ? ' saving' : ''}`, x: (label) => label.labelX,
          y: (label) => label.labelY})
        .text((label) => label.text);
    }

    describe(point) {
      const {compare} = this;
      const slower = compare ? ` (${units.signedPercent(compare.slowdown(point.time_s), 2)})` : '';
      const rows = [['Iteration time', `${units.time(point.time_s, 6)}${slower}`],
        ['Energy', units.energy(point.energy_j, 6)]];
      if (compare) rows.push(['Saving', units.percent(compare.saving(point.energy_j), 3)]);
      if (units.isNumber(point.lower_bound_j)) rows.push(['Above the bound', units.percent(relativeGap(point), 3)]);
      if (point.switches !== undefined) rows.push(['Clock switches', String(point.switches)]);
      if (point.order_name) rows.push(['Order', point.order_name]);
      if (point.own_order) rows.push(['Order', 'another one: plans keep the given order, so the bound does not apply']);
      if (units.isNumber(point.peak_activations)) rows.push(['Activations held', String(point.peak_activations)]);
      return {title: `${point.name} (${point.basis})`, rows};
    }

    hover([mouseX, mouseY]) {
      const nearest = this.points.map((point) => ({point, ...this.place(point)}))
        .map((candidate) => ({...candidate, distance: Math.hypot(candidate.x - mouseX, candidate.y - mouseY)}))
        .sort((a, b) => a.distance - b.distance)[0];
      if (nearest && nearest.distance < kPickPx) {
        this.showCursor(nearest, this.describe(nearest.point));
        return;
      }
      const time_s = this.x.invert(mouseX) / this.timeUnit.factor;
      const inside = mouseX >= this.xRange[0] && mouseX <= this.xRange[1] && mouseY <= this.yRange[0];
      const energy_j = inside && this.bound.length ? energyAt(this.bound, time_s) : null;
      if (energy_j === null) {
        this.clearCursor();
        return;
      }
      const {boundName, boundBasis} = this.model;
      this.showCursor(this.place({time_s, energy_j}),
        this.describe({name: boundName, basis: boundBasis, time_s, energy_j}));
    }

    showCursor({x, y}, content) {
      this.clearCursor();
      const [left] = this.xRange;
      const [bottom] = this.yRange;
      this.cursor.append('line').attr({x1: x, x2: x, y1: y, y2: bottom});
      this.cursor.append('line').attr({x1: left, x2: x, y1: y, y2: y});
      this.cursor.append('circle').attr({cx: x, cy: y, r: 8});
      const box = this.svg.node().getBoundingClientRect();
      readout.show(box.left + x * box.width / this.width, box.top + y * box.height / this.height, content);
    }

    clearCursor() {
      this.cursor.selectAll('*').remove();
      readout.hide();
    }

    select(index) {
      this.selected = Math.max(0, Math.min(this.points.length - 1, index));
      const point = this.points[this.selected];
      this.showCursor(this.place(point), this.describe(point));
    }

    zoomBy(factor) {
      interaction.zoomBy(this.view, factor);
      this.draw();
    }

    onKey(event) {
      interaction.onKey(event, {
        ArrowRight: () => this.select(this.selected + 1),
        ArrowLeft: () => this.select(this.selected - 1),
        Home: () => this.select(0),
        End: () => this.select(this.points.length - 1),
        Escape: () => this.clearCursor(),
      }, (factor) => this.zoomBy(factor));
    }
  }

  // The model of a report.
  const ofReport = (report) => {
    const {verified} = report.certificate;
    const isFree = report.orders.length > 0;
    return {
      keyed: true,
      segments: report.order_curves.map((curve) => ({order: curve.order, points: curvePoints(curve)})),
      curve: curvePoints(report.frontier), separateBound: curvePoints(report.lower_bound), baseline: report.baseline,
      points: [
        ...report.plans.map((plan) => {
          const chosen = plan.number === report.chosen_plan;
          const name = report.comparison ? report.chosen.label : `Plan ${plan.number}`;
          const order = report.orders[plan.order];
          return {...plan, order_name: order && order.name, type: 'plan', name, basis: 'planned', chosen, isTarget: chosen,
            label: chosen ? name : ''};
        }),
        ...report.policies.filter((policy) => !report.comparison || policy.name !== report.chosen.label)
          .map((policy) => ({...policy, type: policy.own_order ? 'own-order' : 'policy', basis: 'replayed',
            label: policy.name})),
        {...report.baseline, type: 'baseline', name: 'Baseline', label: 'Baseline', basis: 'planned'},
      ],
      boundName: isFree ? 'Bound of all orders' : 'Lower bound', boundBasis: verified ? 'certified' : 'not verified',
      regionLabel: !verified ? 'below the lower bound (not verified)'
        : isFree ? 'no plan of an order within memory can be here' : 'no plan of this order can be here',
      summary: `Time and energy of one iteration: frontier, ${report.plans.length} plans, ` +
        `${report.policies.length} policies and the baseline. Arrow keys move between the points, ` +
        'plus and minus zoom, 0 shows all. The tables below have the same numbers.',
    };
  };

  // Marks for legends.
  const sample = (draw) => {
    const svg = d3.select(document.createElementNS('http://www.w3.org/2000/svg', 'svg'))
      .attr({width: 26, height: 14, 'aria-hidden': true});
    draw(svg);
    return svg.node();
  };
  const pointSample = (type, css) => sample((svg) => svg.append('path')
    .attr({class: css, transform: 'translate(13,7)', d: symbol(type, css === 'plan chosen' ? 90 : 56)}));
  const lineSample = (css) => sample((svg) => svg.append('line').attr({class: css, x1: 0, x2: 26, y1: 7, y2: 7}));

  const legend = (report) => {
    const exact = report.lower_bound.time_s.length === 0;
    const ofOrder = ({name}, i) => [lineSample(`curve ${orderClass(i)}`), `frontier in the order ${name}`];
    const frontier = [lineSample('curve'), exact ? 'frontier = lower bound of any plan in this order' : 'frontier'];
    const items = [
      ...(report.orders.length ? report.orders.map(ofOrder) : [frontier]),
      ...(exact ? [] : [[lineSample('bound'),
        report.orders.length ? 'lower bound of any plan in any order within memory'
          : 'lower bound of any plan in this order']]),
      ...(report.plans.some((plan) => plan.number !== report.chosen_plan)
        ? [[pointSample('plan', 'plan'), 'deployable plan']] : []),
      ...(report.chosen_plan === null ? []
        : [[pointSample('plan', 'plan chosen'), report.comparison ? report.chosen.label : 'chosen plan']]),
      ...(report.policies.some((policy) => !policy.own_order)
        ? [[pointSample('policy', 'policy'), 'policy (replayed)']] : []),
      ...(report.policies.some((policy) => policy.own_order)
        ? [[pointSample('own-order', 'own-order'),
          report.orders.length ? 'policy in another order (replayed)'
            : 'policy in another order, to which this bound and these plans do not apply (replayed)']] : []),
      [pointSample('baseline', 'baseline'), 'baseline'],
    ];
    return items.map(([node, text]) => element('li', {}, [node, text]));
  };

  return {Plot, ofReport, legend, lineSample, pointSample, orderClass};
})();
