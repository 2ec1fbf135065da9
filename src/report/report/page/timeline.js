// The timeline: one lane per rank, the chosen plan above the baseline on one time axis, on canvas so that tens of
// thousands of ops stay fluid.
const timelinePlot = (() => {
  const kGutterPx = 58;
  const kAxisPx = 24;
  const kTitlePx = 25;
  const kGroupGapPx = 12;
  const kFontPx = 11;
  const kOverviewPx = 34;

  const prepareCanvas = (canvas, width, height) => {
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    const context = canvas.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return context;
  };

  // The mark at the foot of an op. Returns the height it takes.
  const drawKindMark = (context, kind, x, y, width, height) => {
    const marks = timelineData.kKindMarks[kind];
    if (marks.length === 0 || height < 7) return 0;
    const thickness = Math.max(2, Math.round(height * 0.16));
    for (const [from, to, colour] of marks) {
      context.fillStyle = colour;
      context.fillRect(x + from * width, y + height - thickness, (to - from) * width, thickness);
    }
    return thickness;
  };

  class Timeline {
    // `blockingPower_w`: of each rank, empty where it is not known. `groups`: [{title, timeline}].
    constructor(container, overview, blockingPower_w, groups) {
      this.container = container;
      this.blockingPower_w = blockingPower_w;
      this.groups = groups;
      this.end_s = Math.max(...groups.map(({timeline}) => timeline.time_s));
      this.clocks = d3.extent(groups.flatMap(({timeline}) => timeline.ranks.flat()), (op) => op.clock_mhz);
      this.lanes = groups.flatMap(({timeline}, group) => timeline.ranks.map((ops, rank) => ({group, rank, ops})));
      this.baselineOps = new Map(groups.slice(1).flatMap(({timeline}) => timeline.ranks.flat())
        .map((op) => [timelineData.opKey(op), op]));
      this.hovered = null;  // {lane, op}
      this.canvas = element('canvas', {tabindex: '0', role: 'application', 'aria-roledescription': 'timeline',
        'aria-label': this.summary()});
      container.append(this.canvas);
      this.redraw = interaction.perFrame(() => this.draw());
      this.zoom = d3.behavior.zoom().on('zoom', this.redraw);
      interaction.attachZoom(this.canvas, this.zoom);
      this.canvas.addEventListener('mousemove', (event) => this.onMove(event));
      this.canvas.addEventListener('click', (event) => this.onMove(event));
      this.canvas.addEventListener('mouseleave', () => this.clear());
      this.canvas.addEventListener('blur', () => this.clear());
      this.canvas.addEventListener('keydown', (event) => this.onKey(event));
      this.overview = new Overview(overview, this);
      this.layout();
    }

    summary() {
      const [low, high] = this.clocks;
      return `Timeline of ${this.lanes.length} lanes, clocks from ${low} to ${high} MHz. Left and right move from op to ` +
        'op, up and down between ranks, plus and minus zoom, 0 shows all.';
    }

    layout() {
      this.width = Math.max(260, this.container.clientWidth);
      const ranks = Math.max(...this.groups.map(({timeline}) => timeline.ranks.length));
      this.laneStep = Math.max(4, Math.min(28, Math.floor(460 / (ranks * this.groups.length) * 1.15)));
      this.laneHeight = this.laneStep - (this.laneStep > 8 ? 3 : 1);
      let y = kAxisPx;
      let group = -1;
      for (const lane of this.lanes) {
        if (lane.group !== group) {
          y += group < 0 ? 0 : kGroupGapPx;
          group = lane.group;
          const title = this.titleOf(this.groups[group]);
          Object.assign(this.groups[group], {titleY: y, ...title});
          y += title.figuresBelow ? 2 * kTitlePx - 6 : kTitlePx;
        }
        lane.y = y;
        y += this.laneStep;
      }
      this.height = y + 2;
      this.xRange = [kGutterPx, this.width - 1];
      this.x = d3.scale.linear().domain([0, this.end_s]).range(this.xRange);
      const shortest = d3.min(this.lanes, ({ops}) => d3.min(ops, (op) => op.duration_s)) || this.end_s;
      const deepest = this.end_s / shortest * 240 / (this.width - kGutterPx);
      this.zoom.x(this.x).scaleExtent([1, Math.max(8, deepest)]).size([this.width, this.height]);
      this.view = {zoom: this.zoom, x: this.xRange, y: [0, 0]};
      this.context = prepareCanvas(this.canvas, this.width, this.height);
      this.onTheme();
    }

    onTheme() {
      this.colourOf = palette.clockColours(...this.clocks);
      this.css = {ink: palette.css('--ink'), muted: palette.css('--muted'), lane: palette.css('--lane'),
        rule: palette.css('--rule'), surface: palette.css('--surface')};
      this.overview.layout();
      this.draw();
    }

    draw() {
      interaction.clampTranslate(this.view);
      const {context} = this;
      this.font = getComputedStyle(document.body).fontFamily;
      context.clearRect(0, 0, this.width, this.height);
      this.drawAxis();
      for (const group of this.groups) this.drawTitle(group);
      let visible = 0;
      for (const lane of this.lanes) visible += this.drawLane(lane);
      this.drawHovered();
      this.canvas.dataset.visibleOps = String(visible);
      this.canvas.dataset.zoom = this.zoom.scale().toPrecision(4);
      this.overview.showExtent(this.x.domain());
    }

    drawAxis() {
      const {context} = this;
      const unit = units.timeUnit(this.x.domain()[1]);
      const scale = this.x.copy().domain(this.x.domain().map((t) => t * unit.factor));
      const count = Math.max(2, Math.floor(this.width / 110));
      const format = scale.tickFormat(count);
      context.font = `12px ${this.font}`;
      context.textAlign = 'center';
      context.textBaseline = 'alphabetic';
      for (const tick of scale.ticks(count)) {
        const x = Math.round(scale(tick)) + 0.5;
        context.fillStyle = this.css.rule;
        context.fillRect(x - 0.5, kAxisPx - 6, 1, this.height);
        context.fillStyle = this.css.muted;
        const text = `${format(tick)} ${unit.name}`;
        const half = context.measureText(text).width / 2;
        context.fillText(text, Math.min(x, this.width - half), kAxisPx - 10);
      }
    }

    // Figures that do not fit next to their title stand below it.
    titleOf({title, timeline}) {
      const context = this.canvas.getContext('2d');
      const font = getComputedStyle(document.body).fontFamily;
      const figures = `${units.time(timeline.time_s, 5)} · ${units.energy(timeline.energy_j, 5)}`;
      context.font = `600 13px ${font}`;
      const figuresX = context.measureText(`${title}  `).width;
      context.font = `13px ${font}`;
      const figuresWidth = context.measureText(figures).width;
      const figuresBelow = figuresX + figuresWidth > this.width;
      const titleWidth = figuresBelow ? Math.max(figuresX, figuresWidth) : figuresX + figuresWidth;
      return {figures, figuresX: figuresBelow ? 0 : figuresX, figuresBelow, titleWidth};
    }

    drawTitle({title, titleY, figures, figuresX, figuresBelow, titleWidth}) {
      const {context} = this;
      const lineGap = figuresBelow ? kTitlePx - 6 : 0;
      context.textAlign = 'left';
      context.textBaseline = 'middle';
      context.fillStyle = this.css.surface;
      context.fillRect(0, titleY, titleWidth + 6, lineGap + kTitlePx - 2);
      context.font = `13px ${this.font}`;
      context.fillStyle = this.css.muted;
      context.fillText(figures, figuresX, titleY + lineGap + kTitlePx / 2);
      context.font = `600 13px ${this.font}`;
      context.fillStyle = this.css.ink;
      context.fillText(title, 0, titleY + kTitlePx / 2);
    }

    // Returns how many ops of the lane lie in the visible time.
    drawLane({group, rank, ops, y}) {
      const {context, laneHeight} = this;
      const [from, to] = this.xRange;
      const [low_s, high_s] = this.x.domain();
      const end = Math.min(to, this.x(this.groups[group].timeline.time_s));
      context.fillStyle = this.css.lane;
      context.fillRect(from, y, Math.max(0, end - from), laneHeight);
      context.textBaseline = 'middle';
      if (this.laneStep >= 12 || rank % Math.ceil(14 / this.laneStep) === 0) {
        context.fillStyle = this.css.muted;
        context.textAlign = 'left';
        context.font = `12px ${this.font}`;
        context.fillText(`rank ${rank}`, 2, y + laneHeight / 2 + 0.5);
      }
      context.textAlign = 'center';
      context.font = `${kFontPx}px ${this.font}`;
      const perSecond = (to - from) / (high_s - low_s);
      let visible = 0;
      // Whole device pixels: neighbours stay crisp and nothing flickers while panning.
      const ratio = window.devicePixelRatio || 1;
      const toPixel = (time_s) =>
        Math.round(Math.max(from, Math.min(to, from + (time_s - low_s) * perSecond)) * ratio) / ratio;
      for (let i = timelineData.firstEndingAfter(ops, low_s); i < ops.length && ops[i].start_s < high_s; ++i) {
        const op = ops[i];
        const x = toPixel(op.start_s);
        this.drawOp(op, x, toPixel(op.start_s + op.duration_s) - x, y, op.duration_s * perSecond >= 9 ? 1 : 0);
        ++visible;
      }
      return visible;
    }

    // `gap` is the hairline to the next op, in pixels.
    drawOp(op, x, width, y, gap) {
      const {context, laneHeight} = this;
      const colour = this.colourOf(op.clock_mhz);
      context.fillStyle = colour.fill;
      context.fillRect(x, y, Math.max(width - gap, 0.5), laneHeight);
      const mark = width > 1 ? drawKindMark(context, op.kind, x, y, width - gap, laneHeight) : 0;
      if (laneHeight < kFontPx + 4 || width < 15) return;
      // An I before a number reads as a one.
      const text = [...(op.kind === 'I' ? [] : [`${op.kind}${op.microbatch}`]), `${op.microbatch}`]
        .find((candidate) => context.measureText(candidate).width <= width - 5);
      if (!text) return;
      context.fillStyle = colour.text;
      context.fillText(text, x + width / 2, y + (laneHeight - mark) / 2 + 0.5);
    }

    // Outlines the op that is pointed at, and what happens to its microbatch on every rank.
    drawHovered() {
      if (!this.hovered || !this.hovered.op) return;
      const {context, laneHeight} = this;
      const {lane, op: {microbatch}} = this.hovered;
      context.save();
      context.beginPath();
      context.rect(this.xRange[0], 0, this.xRange[1] - this.xRange[0], this.height);
      context.clip();
      context.strokeStyle = this.css.ink;
      for (const {group, ops, y} of this.lanes) {
        if (group !== lane.group) continue;
        for (const op of ops) {
          if (op.microbatch !== microbatch) continue;
          const x = this.x(op.start_s);
          const width = Math.max(1, this.x(op.start_s + op.duration_s) - x);
          context.lineWidth = op === this.hovered.op ? 3 : 1.5;
          context.strokeRect(x, y, width, laneHeight);
        }
      }
      context.restore();
    }

    laneAt(y) {
      return this.lanes.find((lane) => y >= lane.y && y < lane.y + this.laneStep) || null;
    }

    onMove(event) {
      const lane = this.laneAt(event.offsetY);
      const time_s = this.x.invert(event.offsetX);
      const inside = lane && event.offsetX >= this.xRange[0] && time_s >= 0 &&
        time_s <= this.groups[lane.group].timeline.time_s;
      if (!inside || event.buttons) {
        this.clear();
        return;
      }
      const op = timelineData.opAt(lane.ops, time_s);
      this.hovered = {lane, op};
      readout.show(event.clientX, event.clientY, op ? this.describe(lane, op) : this.describeIdle(lane, time_s));
      this.redraw();
    }

    describe({group, rank}, op) {
      const rows = [
        ['Rank', String(rank)],
        ['Clock', `${op.clock_mhz}\u00a0MHz`],
        // A line for each part of the op that has a setting of its own.
        ...(op.setting ? op.setting.split(';').map((part, i) => [i ? '' : 'Setting', part]) : []),
        ['Start', units.time(op.start_s, 6)],
        ['Duration', units.time(op.duration_s, 5)],
      ];
      if (units.isNumber(op.energy_j)) {
        rows.push(['Energy', units.energy(op.energy_j, 4)], ['Mean power', units.power(op.energy_j / op.duration_s)]);
      }
      const base = group === 0 ? this.baselineOps.get(timelineData.opKey(op)) : null;
      if (base) {
        const change = (value, reference) => units.signedPercent(100 * (value / reference - 1), 1);
        rows.push(['Duration against baseline', change(op.duration_s, base.duration_s)],
          ['Energy against baseline', change(op.energy_j, base.energy_j)]);
      }
      const kind = timelineData.kKindNames[op.kind];
      return {title: `${op.kind}${op.microbatch}: ${kind}, stage ${op.stage}`, rows,
        colour: this.colourOf(op.clock_mhz).fill};
    }

    describeIdle({group, rank, ops}, time_s) {
      const next = timelineData.firstEndingAfter(ops, time_s);
      const start_s = next > 0 ? ops[next - 1].start_s + ops[next - 1].duration_s : 0;
      const end_s = next < ops.length ? ops[next].start_s : this.groups[group].timeline.time_s;
      const rows = [['Rank', String(rank)], ['Start', units.time(start_s, 6)],
        ['Duration', units.time(end_s - start_s, 5)]];
      const power_w = this.blockingPower_w[rank];
      if (units.isNumber(power_w)) {
        rows.push(['Blocking power', units.power(power_w)], ['Energy', units.energy((end_s - start_s) * power_w)]);
      }
      return {title: 'Waiting', rows, colour: this.css.lane};
    }

    clear() {
      readout.hide();
      if (!this.hovered) return;
      this.hovered = null;
      this.redraw();
    }

    zoomBy(factor) {
      interaction.zoomBy(this.view, factor);
      this.draw();
    }

    // Shows [from_s, to_s].
    showTime(from_s, to_s) {
      const [low, high] = this.zoom.scaleExtent();
      const k = Math.max(low, Math.min(high, this.end_s / (to_s - from_s)));
      const [left, right] = this.xRange;
      const at = left + (right - left) * from_s / this.end_s;
      this.zoom.scale(k).translate([left - at * k, 0]);
      this.redraw();
    }

    // Selects the op `step` places on along the lane, or the one running then on the lane `laneStep` below.
    step(step, laneStep) {
      const lane = this.hovered ? this.hovered.lane : this.lanes[0];
      const op = this.hovered ? this.hovered.op : null;
      const [low_s, high_s] = this.x.domain();
      const time_s = op ? op.start_s + op.duration_s / 2 : low_s;
      const wantedLane = this.lanes[(this.lanes.indexOf(lane) + laneStep + this.lanes.length) % this.lanes.length];
      const ops = wantedLane.ops;
      if (!ops.length) return;
      const near = laneStep || !op ? timelineData.firstEndingAfter(ops, time_s) : ops.indexOf(op) + step;
      const chosen = ops[Math.max(0, Math.min(ops.length - 1, near))];
      const middle_s = chosen.start_s + chosen.duration_s / 2;
      if (middle_s < low_s || middle_s > high_s) {
        const span = high_s - low_s;
        this.showTime(middle_s - span / 2, middle_s + span / 2);
      }
      this.hovered = {lane: wantedLane, op: chosen};
      this.draw();
      const box = this.canvas.getBoundingClientRect();
      readout.show(box.left + this.x(middle_s), box.top + wantedLane.y + this.laneHeight,
        this.describe(wantedLane, chosen));
    }

    onKey(event) {
      interaction.onKey(event, {
        ArrowRight: () => this.step(1, 0),
        ArrowLeft: () => this.step(-1, 0),
        ArrowDown: () => this.step(0, 1),
        ArrowUp: () => this.step(0, -1),
        Escape: () => this.clear(),
      }, (factor) => this.zoomBy(factor));
    }
  }

  // The whole chosen plan in a strip, with the visible part framed: drag to choose another.
  class Overview {
    constructor(container, timeline) {
      this.container = container;
      this.timeline = timeline;
      this.canvas = element('canvas', {'aria-hidden': 'true'});
      container.append(this.canvas);
      this.svg = d3.select(container).append('svg').attr('aria-hidden', true);
      this.x = d3.scale.linear();
      this.brush = d3.svg.brush().x(this.x).on('brush', () => this.onBrush());
      this.group = this.svg.append('g').attr('class', 'brush');
    }

    layout() {
      const width = this.timeline.width;
      const ranks = this.timeline.groups[0].timeline.ranks;
      const context = prepareCanvas(this.canvas, width, kOverviewPx);
      this.x.domain([0, this.timeline.end_s]).range(this.timeline.xRange);
      const laneHeight = kOverviewPx / ranks.length;
      context.fillStyle = this.timeline.css.lane;
      context.fillRect(kGutterPx, 0, width - kGutterPx, kOverviewPx);
      ranks.forEach((ops, rank) => {
        for (const op of ops) {
          context.fillStyle = this.timeline.colourOf(op.clock_mhz).fill;
          const x = this.x(op.start_s);
          context.fillRect(x, rank * laneHeight, Math.max(0.4, this.x(op.start_s + op.duration_s) - x), laneHeight);
        }
      });
      this.group.call(this.brush);
      this.group.selectAll('rect').attr({y: 0, height: kOverviewPx});
    }

    onBrush() {
      if (this.brush.empty()) return;
      this.timeline.showTime(...this.brush.extent());
    }

    showExtent(domain) {
      this.brush.extent(domain);
      this.group.call(this.brush);
    }
  }

  return {Timeline};
})();
