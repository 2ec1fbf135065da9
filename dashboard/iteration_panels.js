// Time and energy over iterations.
import shared from './shared.js';
import {LineChart} from './line_chart.js';
import {TableBehind, panel, setText} from './parts.js';
import {basisOf, counted, guardLimit_pct, guardText, invalidFigures, isOver, kInvalidFigures, plansItself, predictionError_pct,
  versusPlan_pct} from './words.js';

const {dataTable, element, units} = shared;

const kTableRows = 100;

// Iterations at which another plan begins: [{x, y}].
const plannedSteps = (iterations, member, store) => {
  const steps = [];
  for (const iteration of iterations) {
    const y = iteration[member];
    const isAside = store.isProfiling(iteration);
    const last = steps[steps.length - 1];
    if (!last || last.y !== y || last.isAside !== isAside) steps.push({x: iteration.iteration, y, isAside});
  }
  return steps;
};

const planChanges = (iterations, store) => {
  const marks = [];
  let shown = null;
  for (const {iteration, plan_version: current} of iterations) {
    if (current === null) continue;
    const text = store.planName(current);
    if (shown !== null && text !== shown) marks.push({x: iteration, text});
    shown = text;
  }
  return marks;
};

// Stretches of iterations in which clocks were tried: [{from, to}].
const profiledSpans = (iterations, store) => {
  const spans = [];
  let last = null;
  for (const iteration of iterations) {
    if (store.isProfiling(iteration)) {
      if (last) last.to = iteration.iteration;
      else spans.push(last = {from: iteration.iteration, to: iteration.iteration});
    } else {
      last = null;
    }
  }
  return spans;
};

// Of jobs that plan their own steps.
const clocksText = ({full_clocks: isFull}) => (isFull ? 'full, on some rank' : 'of its lengths');
const predictionRows = (iteration) => [
  ['Predicted at full clocks', units.time(iteration.predicted_time_s)],
  ['Prediction off by', units.signedPercent(predictionError_pct(iteration), 2)],
  ['Whole iteration', units.time(iteration.time_s)],
  ['Clocks', clocksText(iteration)]];
const kPredictionColumns = [
  {head: ['Units'], text: (row) => units.time(row.units_time_s)},
  {head: ['Units', 'predicted'], text: (row) => units.time(row.predicted_time_s)},
  {head: ['Prediction', 'off by'], text: (row) => units.signedPercent(predictionError_pct(row), 2)},
  {head: ['Clocks'], css: 'text', text: clocksText}];

// `plannedMember` or `predictedMember`: what `member` is compared with; none: it is alone.
class IterationPanel {
  constructor({title, axis, member, plannedMember, predictedMember, unitOf, format, levelsOf, note}) {
    Object.assign(this, {member, plannedMember, predictedMember, format, levelsOf, note});
    this.iterations = [];
    this.basis = '';
    this.chart = new LineChart({name: title, axis, unitOf, describe: (point) => this.describe(point.iteration)});
    this.empty = element('p', {class: 'empty'});
    this.caption = element('p', {class: 'caption'});
    this.legend = element('ul', {class: 'legend', 'aria-label': 'Legend'});
    this.table = new TableBehind(`The last ${kTableRows} iterations as a table`, () => this.iterationTable());
    const {node, setBasis} = panel(title, {tools: this.chart.tools},
      [this.legend, this.chart.node, this.empty, this.caption, this.table.node]);
    Object.assign(this, {node, setBasis});
  }

  update(store) {
    const {iterations, summary} = store;
    this.store = store;
    this.iterations = iterations;
    this.basis = basisOf(summary);
    setText(this.caption, `${this.note(summary)} A triangle marks an iteration above the scale that is none of profiling. ` +
      'The axis does not start at zero; drag over the plot to zoom.');
    const points = iterations.map((iteration) => ({x: iteration.iteration, y: iteration[this.member], iteration,
      isAside: store.isProfiling(iteration)}));
    const invalid = invalidFigures(summary);
    setText(this.empty, invalid ? kInvalidFigures : iterations.length ? 'No iteration has a value that counts.'
      : isOver(summary) ? 'No iteration was reported.' : 'No iteration has been reported yet.');
    const hasValues = !invalid && points.some(({y}) => units.isNumber(y));
    for (const node of [this.chart.node, this.caption, this.table.node, this.legend]) node.hidden = !hasValues;
    this.empty.hidden = hasValues;
    if (!hasValues) return;
    const steps = this.plannedMember ? plannedSteps(iterations, this.plannedMember, store) : [];
    const levels = this.levelsOf(summary);
    const spans = profiledSpans(iterations, store);
    const predicted = this.predictedMember
      ? iterations.map((iteration) => ({x: iteration.iteration, y: iteration[this.predictedMember]})) : [];
    this.drawLegend([...(predicted.length ? [['predicted', 'predicted at full clocks']] : []),
      ...(steps.some(({y}) => units.isNumber(y)) ? [['planned', 'planned']] : [])], levels, spans.length > 0);
    const last = points[points.length - 1];
    this.chart.update({points, predicted, steps, levels, marks: planChanges(iterations, store), spans,
      summary: `${counted(points.length, 'iteration')}, the last took ${this.format(last.y)}.`});
    this.table.update();
  }

  drawLegend(lines, levels, isProfiled) {
    const items = [['series', this.basis], ...lines,
      ...levels.map(({css, name, value}) => [css, `${name} ${value}`]),
      ...(isProfiled ? [['profiled', 'profiling, not in the scale']] : [])];
    const text = JSON.stringify(items);
    if (text === this.legendText) return;
    this.legendText = text;
    this.legend.replaceChildren(...items.map(([css, name]) =>
      element('li', {}, [element('span', {class: `sample ${css}`}), name])));
  }

  describe(iteration) {
    const value = iteration[this.member];
    return {title: `Iteration ${iteration.iteration.toLocaleString('en')}`, rows: [
      [this.basis[0].toUpperCase() + this.basis.slice(1), this.format(value)],
      ...(this.predictedMember ? predictionRows(iteration) : []),
      ...(this.plannedMember ? this.planRows(iteration) : []),
      ['Mean power, all GPUs', units.power(iteration.power_w)],
      ...(units.isNumber(iteration.trial_mhz) ? [['Clock on trial', `${iteration.trial_mhz} MHz`]] : [])]};
  }

  planRows(iteration) {
    const planned = iteration[this.plannedMember];
    return [['Planned', this.format(planned)],
      ['Against plan', units.signedPercent(versusPlan_pct(iteration[this.member], planned), 2)],
      ['Plan', this.store.planName(iteration.plan_version)]];
  }

  iterationTable() {
    const planned = [
      {head: ['Time', 'planned'], text: (row) => units.time(row.planned_time_s)},
      {head: ['Energy', 'planned'], text: (row) => units.energy(row.planned_energy_j)},
      {head: ['Plan'], css: 'text', text: (row) => this.store.planName(row.plan_version)}];
    return dataTable([
      {head: ['Iteration'], text: (row) => String(row.iteration)},
      {head: ['Time', this.basis], text: (row) => units.time(row.time_s)},
      {head: ['Energy', this.basis], text: (row) => units.energy(row.energy_j)},
      ...(this.predictedMember ? kPredictionColumns : []),
      ...(this.plannedMember ? planned : []),
    ], this.iterations.slice(-kTableRows).reverse());
  }

  onTheme() {}
}

const isSet = (baseline, member) => baseline && units.isNumber(baseline[member]);

export const timePanel = () => new IterationPanel({
  title: 'Iteration time', axis: 'Time', member: 'time_s', plannedMember: 'planned_time_s', unitOf: units.timeUnit,
  format: (value) => units.time(value),
  note: (job) => `Guard (${guardText(job)}): above it on balance, plans are withdrawn before the job is two iterations ` +
    'later than that.',
  levelsOf: (job) => {
    const {baseline} = job;
    if (!isSet(baseline, 'time_s')) return [];
    const guard_s = baseline.time_s * (1 + guardLimit_pct(job) / 100);
    return [{name: 'baseline', css: 'baseline', y: baseline.time_s, value: units.time(baseline.time_s)},
      {name: 'guard', css: 'guard', y: guard_s, value: units.time(guard_s)}];
  },
});

// Of a job that plans its own steps.
export const predictionPanel = () => new IterationPanel({
  title: 'Time of the units of each iteration', axis: 'Time', member: 'units_time_s',
  predictedMember: 'predicted_time_s', unitOf: units.timeUnit, format: (value) => units.time(value),
  note: () => 'From the begin of the iteration until the last unit of any rank ends, without gradient sums and optimizer, ' +
    'against the predicted time of the longest replica\u2019s units at full clocks: the job plans clocks that keep it.',
  levelsOf: () => [],
});

export const energyPanel = (job) => new IterationPanel({
  title: 'Energy per iteration', axis: 'Energy', member: 'energy_j',
  plannedMember: plansItself(job) ? null : 'planned_energy_j', unitOf: units.energyUnit,
  format: (value) => units.energy(value), note: () => 'All ranks together.',
  levelsOf: ({baseline}) => (isSet(baseline, 'energy_j')
    ? [{name: 'baseline', css: 'baseline', y: baseline.energy_j, value: units.energy(baseline.energy_j)}] : []),
});
