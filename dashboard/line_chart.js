// A line over iterations, with a line of predictions, the plan's steps and levels such as the baseline for comparison.
import shared from './shared.js';
import {button, uniqueId} from './parts.js';

const {element, interaction, readout, units} = shared;

const kSpans = [[50, '50'], [200, '200'], [1000, '1,000'], [Infinity, 'All']];
const kMargin = {left: 66, right: 78, top: 12, bottom: 40};
const kLabelPx = 14;
// Rows of the labels of marks, and the width of a letter of theirs.
const kMarkRows = 3;
const kMarkRowPx = 13;
const kLetterPx = 6;
const kMarkGapPx = 4;

const svgNode = (name) => document.createElementNS('http://www.w3.org/2000/svg', name);

// Labels at the right edge, moved apart so that each can be read.
const spread = (labels, top, bottom) => {
  const sorted = [...labels].sort((a, b) => a.y - b.y);
  let next = top;
  for (const label of sorted) {
    label.labelY = Math.max(label.y, next);
    next = label.labelY + kLabelPx;
  }
  let last = bottom;
  for (const label of sorted.reverse()) {
    label.labelY = Math.min(label.labelY, last);
    last = label.labelY - kLabelPx;
  }
  return labels;
};

// Lowest and highest of the points in every pixel: a path never has more than two points a pixel.
const thinned = (points, width) => {
  if (points.length <= 2 * width) return points;
  const size = Math.ceil(points.length / width);
  const kept = [];
  for (let i = 0; i < points.length; i += size) {
    const part = points.slice(i, i + size);
    const [low, high] = [d3.min(part, (point) => point.y), d3.max(part, (point) => point.y)];
    kept.push(...part.filter((point) => point.y === low || point.y === high).slice(0, 2));
  }
  return kept;
};

// The share of points that the scale is made for, and how much further than these it reaches.
const kScaled = 0.95;
const kReach = 2;
const kNewest = 5;

// The top of a scale for these values, in their order: single ones far above the others, as of iterations that
// stalled, have no part in it.
const topOf = (values) => {
  const sorted = [...values].sort(d3.ascending);
  const [low, high] = [sorted[0], sorted[sorted.length - 1]];
  const usual = low + kReach * (d3.quantile(sorted, kScaled) - low);
  return Math.max(Math.min(high, usual), d3.median(values.slice(-kNewest)));
};

// Places of the labels of marks within `right`: each in the first row where it covers no other; none where there is no
// such row.
const placed = (marks, right) => {
  const ends = Array(kMarkRows).fill(-Infinity);
  return marks.map(({x, text}) => {
    const width = text.length * kLetterPx;
    const isLeft = x + kMarkGapPx + width > right;
    const begin = isLeft ? x - kMarkGapPx - width : x + kMarkGapPx;
    const row = ends.findIndex((end) => end < begin);
    if (row >= 0) ends[row] = begin + width + kMarkGapPx;
    return {x: isLeft ? x - kMarkGapPx : begin, text, row, anchor: isLeft ? 'end' : 'start'};
  }).filter(({row}) => row >= 0);
};

// Points that the scale is made for: all where there are no others.
const inScale = (points) => {
  const own = points.filter(({isAside}) => !isAside);
  return own.length ? own : points;
};

export class LineChart {
  // `unitOf`: largest value => {name, factor}. `describe`: point => {title, rows} for the read-out.
  constructor({name, axis, unitOf, describe}) {
    Object.assign(this, {name, axis, unitOf, describe});
    this.span = 200;
    this.range = null;  // [first, last] iteration when zoomed by hand
    this.data = {points: [], predicted: [], steps: [], levels: []};
    this.selected = null;
    this.clipId = uniqueId('clip');
    this.spanButtons = kSpans.map(([span, text]) => button(text, () => this.showLast(span), {
      'aria-label': span === Infinity ? 'All iterations' : `Last ${text} iterations`}));
    this.tools = this.spanButtons;
    this.svg = d3.select(svgNode('svg')).attr({tabindex: 0, role: 'application', 'aria-roledescription': 'plot'});
    this.node = element('div', {class: 'plot line-chart'}, [this.svg.node()]);
    this.redraw = interaction.perFrame(() => this.draw());
    this.listen();
    new ResizeObserver(this.redraw).observe(this.node);
    this.showLast(this.span);
  }

  listen() {
    const node = this.svg.node();
    node.addEventListener('pointermove', (event) => this.onMove(event));
    node.addEventListener('pointerdown', (event) => this.onDown(event));
    node.addEventListener('pointerup', (event) => this.onUp(event));
    node.addEventListener('pointerleave', () => this.clear());
    node.addEventListener('blur', () => this.clear());
    node.addEventListener('keydown', (event) => this.onKey(event));
  }

  showLast(span) {
    this.span = span;
    this.range = null;
    this.spanButtons.forEach((node, i) => node.setAttribute('aria-pressed', String(kSpans[i][0] === span)));
    this.redraw();
  }

  zoomTo(range) {
    this.range = range;
    this.spanButtons.forEach((node) => node.setAttribute('aria-pressed', 'false'));
    this.redraw();
  }

  // `points`: [{x, y, ...}] by x; `predicted`: likewise, of the same x; `steps`: [{x, y}], levels that change;
  // `levels`: [{name, css, y}]; `marks`:
  // [{x, text}]; `spans`: [{from, to}], shaded. Points and steps with `isAside` have no part in the scale. `summary`: a sentence for screen readers.
  update(data) {
    this.data = {predicted: [], ...data};
    this.svg.attr('aria-label', `${this.name}. ${data.summary || ''} Left and right move between the iterations, ` +
      'plus and minus zoom, 0 shows all. The table below has the same numbers.');
    this.redraw();
  }

  visible(points = this.data.points) {
    if (this.range) return points.filter(({x}) => x >= this.range[0] && x <= this.range[1]);
    return this.span === Infinity ? points : points.slice(-this.span);
  }

  draw() {
    this.width = Math.max(240, this.node.clientWidth);
    this.height = Math.max(200, this.node.clientHeight);
    this.svg.attr({viewBox: `0 0 ${this.width} ${this.height}`, width: this.width, height: this.height});
    this.svg.selectAll('*').remove();
    const shown = this.visible();
    this.shownPredicted = this.visible(this.data.predicted);
    const right = this.width - (this.width < 420 ? 14 : kMargin.right);
    this.box = {left: kMargin.left, right, top: kMargin.top, bottom: this.height - kMargin.bottom};
    if (!shown.length) return;
    this.setScales(shown);
    this.drawAxes();
    this.drawLines(shown);
    this.drawLabels();
    this.cursor = this.svg.append('g').attr('class', 'cursor');
    this.node.dataset.points = String(shown.length);
  }

  setScales(shown) {
    const {left, right, top, bottom} = this.box;
    const first = shown[0].x;
    const last = Math.max(first + 1, shown[shown.length - 1].x);
    this.shownSteps = this.data.steps.filter(({x}, i, all) => x <= last &&
      (i + 1 === all.length || all[i + 1].x >= first));
    const ys = (points) => points.map(({y}) => y).filter(units.isNumber);
    const own = ys(inScale(shown));
    const others = [...ys(this.shownPredicted), ...ys(inScale(this.shownSteps)), ...ys(this.data.levels)];
    const low = d3.min([...own, ...others]);
    const high = Math.max(...(own.length ? [topOf(own)] : []), ...others);
    const pad = (high - low || high || 1) * 0.08;
    this.unit = this.unitOf(high);
    this.x = d3.scale.linear().domain([first, last]).range([left, right]);
    this.y = d3.scale.linear().domain([Math.max(0, low - pad) * this.unit.factor, (high + pad) * this.unit.factor])
      .range([bottom, top]);
  }

  toY(value) { return this.y(value * this.unit.factor); }

  drawAxes() {
    const {left, right, top, bottom} = this.box;
    const axis = (scale, orient, ticks, size) => d3.svg.axis().scale(scale).orient(orient).ticks(ticks)
      .innerTickSize(-size).outerTickSize(0).tickPadding(8);
    const xTicks = Math.max(2, Math.min(Math.floor((right - left) / 80), this.x.domain()[1] - this.x.domain()[0]));
    this.svg.append('g').attr({class: 'axis', transform: `translate(0,${bottom})`})
      .call(axis(this.x, 'bottom', xTicks, 0).tickFormat(d3.format(',d')));
    this.svg.append('g').attr({class: 'axis', transform: `translate(${left},0)`})
      .call(axis(this.y, 'left', Math.max(3, Math.floor((bottom - top) / 44)), right - left));
    const title = (text, transform) => this.svg.append('text')
      .attr({class: 'axis-title', transform, 'text-anchor': 'middle'}).text(text);
    title('Iteration', `translate(${(left + right) / 2},${this.height - 4})`);
    title(`${this.axis} (${this.unit.name})`, `translate(12,${(top + bottom) / 2}) rotate(-90)`);
  }

  drawLines(shown) {
    const {left, right, top, bottom} = this.box;
    this.svg.append('clipPath').attr('id', this.clipId).append('rect')
      .attr({x: left - 3, y: top, width: right - left + 6, height: bottom - top});
    const plot = this.svg.append('g').attr('clip-path', `url(#${this.clipId})`);
    const place = (x) => Math.max(left, Math.min(right, this.x(x)));
    for (const {from, to} of this.data.spans || []) {
      const [begin, end] = [place(from - 0.5), place(to + 0.5)];
      if (end > begin) plot.append('rect').attr({class: 'span', x: begin, width: end - begin, y: top, height: bottom - top});
    }
    const marks = (this.data.marks || []).filter(({x}) => x >= this.x.domain()[0] && x <= this.x.domain()[1]);
    for (const {x} of marks) {
      plot.append('line').attr({class: 'switch', x1: this.x(x), x2: this.x(x), y1: top, y2: bottom});
    }
    for (const {x, text, row, anchor} of placed(marks.map(({x, text}) => ({x: this.x(x), text})), right)) {
      plot.append('text').attr({class: 'switch-label', x, y: top + 9 + row * kMarkRowPx, 'text-anchor': anchor})
        .text(text);
    }
    for (const {y, css} of this.data.levels) {
      plot.append('line').attr({class: `level ${css}`, x1: left, x2: right, y1: this.toY(y), y2: this.toY(y)});
    }
    const {shownSteps: steps} = this;
    const line = d3.svg.line().x(({x}) => this.x(x)).y(({y}) => this.toY(y));
    // A stretch before a gap ends where the gap begins.
    const stretches = steps.flatMap((step, i) =>
      (i === 0 || units.isNumber(step.y) ? [step] : [{...steps[i - 1], x: step.x}, step]));
    const end = steps.length ? [{...steps[steps.length - 1], x: this.x.domain()[1]}] : [];
    plot.append('path').attr({class: 'level planned',
      d: line.interpolate('step-after').defined(({y}) => units.isNumber(y))(
      [...stretches, ...end]) || ''});
    const path = d3.svg.line().x(({x}) => this.x(x)).y(({y}) => this.toY(y)).defined(({y}) => units.isNumber(y));
    plot.append('path').attr({class: 'predicted', d: path(thinned(this.shownPredicted, right - left)) || ''});
    plot.append('path').attr({class: 'series', d: path(thinned(shown, right - left)) || ''});
    const isAbove = ({y}) => units.isNumber(y) && this.toY(y) < top;
    plot.selectAll('path.above').data(shown.filter((point) => !point.isAside && isAbove(point))).enter().append('path')
      .attr({class: 'above', d: ({x}) => `M${this.x(x)},${top + 1}l3.5,6h-7z`});
    if (shown.length <= 60) {
      plot.selectAll('circle').data(shown.filter(({y}) => units.isNumber(y))).enter().append('circle')
        .attr({class: 'series-point', r: 2.2, cx: ({x}) => this.x(x), cy: ({y}) => this.toY(y)});
    }
  }

  drawLabels() {
    if (this.width < 420) return;
    const {right, top, bottom} = this.box;
    const {shownSteps: steps} = this;
    const last = steps[steps.length - 1];
    const planned = last && units.isNumber(last.y) ? [{name: 'planned', css: 'planned', y: last.y}] : [];
    const labels = [...planned, ...this.data.levels].map((level) => ({...level, y: this.toY(level.y)}));
    for (const {name, css, labelY} of spread(labels, top + 4, bottom)) {
      this.svg.append('text').attr({class: `level-label ${css}`, x: right + 6, y: labelY + 4}).text(name);
    }
  }

  iterationAt(event) {
    const box = this.svg.node().getBoundingClientRect();
    return this.x ? this.x.invert((event.clientX - box.left) * this.width / box.width) : null;
  }

  onMove(event) {
    const shown = this.visible();
    if (!this.x || !shown.length) return;
    const x = this.iterationAt(event);
    if (this.dragFrom !== undefined) {
      this.drawBrush(this.dragFrom, x);
      return;
    }
    const i = d3.bisector((point) => point.x).left(shown, x);
    const nearest = [shown[i - 1], shown[i]].filter(Boolean).sort((a, b) => Math.abs(a.x - x) - Math.abs(b.x - x))[0];
    this.select(nearest);
  }

  onDown(event) {
    if (event.pointerType === 'touch' || event.button !== 0) return;
    this.dragFrom = this.iterationAt(event);
    this.svg.node().setPointerCapture(event.pointerId);
  }

  onUp(event) {
    const from = this.dragFrom;
    this.dragFrom = undefined;
    if (from === undefined || from === null) return;
    this.clear();
    const [low, high] = d3.extent([from, this.iterationAt(event)]);
    if (this.x(high) - this.x(low) > 8) this.zoomTo([Math.floor(low), Math.ceil(high)]);
  }

  drawBrush(from, to) {
    readout.hide();
    this.cursor.selectAll('*').remove();
    const [low, high] = d3.extent([this.x(from), this.x(to)]);
    this.cursor.append('rect').attr({x: low, width: high - low, y: this.box.top,
      height: this.box.bottom - this.box.top});
  }

  select(point) {
    this.clear();
    this.selected = point.x;
    const {top, bottom} = this.box;
    const [x, y] = [this.x(point.x), units.isNumber(point.y) ? Math.max(top, this.toY(point.y)) : bottom];
    this.cursor.append('line').attr({x1: x, x2: x, y1: top, y2: bottom});
    this.cursor.append('circle').attr({cx: x, cy: y, r: 5});
    const box = this.svg.node().getBoundingClientRect();
    readout.show(box.left + x * box.width / this.width, box.top + y * box.height / this.height, this.describe(point));
  }

  clear() {
    if (this.cursor) this.cursor.selectAll('*').remove();
    this.selected = null;
    readout.hide();
  }

  step(step) {
    const shown = this.visible();
    if (!shown.length) return;
    const at = this.selected === null ? shown.length - 1 - Math.max(0, step)
      : shown.findIndex(({x}) => x === this.selected);
    this.select(shown[Math.max(0, Math.min(shown.length - 1, at + step))]);
  }

  zoomBy(factor) {
    const shown = this.visible();
    if (!shown.length) return;
    if (!factor) return void this.showLast(Infinity);
    const middle = this.selected ?? (shown[0].x + shown[shown.length - 1].x) / 2;
    const half = Math.max(2, (shown[shown.length - 1].x - shown[0].x) / 2 / factor);
    this.zoomTo([middle - half, middle + half]);
  }

  onKey(event) {
    const moves = {ArrowRight: () => this.step(1), ArrowLeft: () => this.step(-1), Escape: () => this.clear()};
    interaction.onKey(event, moves, (factor) => this.zoomBy(factor));
  }
}
