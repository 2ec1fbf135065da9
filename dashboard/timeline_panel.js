// The planned iteration, rank by rank.
import shared from './shared.js';
import {TableBehind, panel, zoomTools} from './parts.js';
import {invalidFigures, isOver, kInvalidFigures} from './words.js';

const {dataTable, element, interaction, timelineData, timelineLegend, timelinePlot, units} = shared;

const kKinds = {forward: 'F', backward: 'B', input_gradient: 'I', weight_gradient: 'W', recomputation: 'R',
  recomputing_backward: 'C'};

// Converts a lowgear.plan/1 to the data of the plot.
const timelineOf = (plan) => ({
  time_s: plan.time_s, energy_j: plan.energy_j,
  ranks: plan.stages.map(({stage, ops}) => ops.map((op) => ({
    kind: kKinds[op.op], stage: op.virtual_stage ?? stage, clock_mhz: op.mhz, microbatch: op.microbatch,
    start_s: op.start_s, duration_s: op.duration_s,
  }))),
});

export class TimelinePanel {
  constructor() {
    this.timeline = null;
    this.plan = null;
    this.clocks = element('div');
    this.legend = element('ul', {class: 'legend', 'aria-label': 'Legend'});
    this.overview = element('div', {class: 'overview'});
    this.box = element('div', {class: 'plot timeline'});
    this.empty = element('p', {class: 'empty'});
    this.caption = element('p', {class: 'caption',
      text: 'The colour of an op shows its clock, its number the microbatch. ' +
      'Point at an op, or use the arrow keys, to see its figures and follow its microbatch. ' +
      'Drag to move; click, then scroll to zoom.'});
    this.table = new TableBehind('Ranks of the plan as a table', () => this.rankTable());
    this.tools = zoomTools('the timeline', (factor) => this.timeline && this.timeline.zoomBy(factor));
    this.keys = element('div', {class: 'timeline-keys'}, [this.clocks, this.legend]);
    const {node, setBasis} = panel('One iteration', {basis: 'planned', tools: [this.tools], css: 'wide'},
      [this.keys, this.overview, this.box, this.empty, this.caption, this.table.node]);
    Object.assign(this, {node, setBasis});
    interaction.onResize(this.box, () => this.timeline && this.timeline.layout());
  }

  update(store) {
    const withdrawal = store.withdrawal();
    const invalid = invalidFigures(store.summary);
    const plan = withdrawal || invalid ? null : store.plan;
    this.empty.textContent = invalid ? kInvalidFigures
      : withdrawal ? `Full clocks: ${withdrawal}.`
        : isOver(store.summary) ? 'The job ended before its first plan.' : 'The timeline appears with the first plan.';
    const drawn = [this.keys, this.overview, this.box, this.caption, this.table.node, this.tools];
    for (const node of drawn) node.hidden = !plan;
    this.empty.hidden = Boolean(plan);
    if (!plan || plan === this.plan) return;
    this.plan = plan;
    this.data = timelineOf(plan);
    this.box.replaceChildren();
    this.overview.replaceChildren();
    const title = `${plan.policy} (planned)`;
    this.timeline = new timelinePlot.Timeline(this.box, this.overview, [], [{title, timeline: this.data}]);
    this.drawLegend();
    this.table.update();
  }

  drawLegend() {
    const ops = this.data.ranks.flat();
    const kinds = [...new Set(ops.map((op) => op.kind))];
    const waiting = element('li', {}, [element('span', {class: 'lane-sample'}), 'waiting']);
    this.legend.replaceChildren(...timelineLegend.kinds(kinds), waiting);
    this.clocks.replaceChildren(timelineLegend.clocks(ops, this.timeline.clocks, this.timeline.colourOf));
  }

  rankTable() {
    const rows = this.data.ranks.map((ops, rank) => ({rank, ops, busy_s: timelineData.busy(ops)}));
    return dataTable([{head: ['GPU'], text: (row) => String(row.rank)},
      {head: ['Ops'], text: (row) => String(row.ops.length)},
      {head: ['Busy'], text: (row) => units.time(row.busy_s)},
      {head: ['Waiting', '% of iteration'], text: (row) => units.fixed(100 * (1 - row.busy_s / this.data.time_s), 1)},
      {head: ['Busy time by clock'], css: 'text', text: (row) => timelineData.describeClocks(row.ops)}], rows);
  }

  onTheme() {
    if (!this.timeline) return;
    this.timeline.onTheme();
    this.drawLegend();
  }
}
