// The frontier and the job's points on it.
import shared from './shared.js';
import {TableBehind, panel, zoomTools} from './parts.js';
import {basisOf, counted, doubtMark, invalidFigures, isOver, kInvalidFigures} from './words.js';

const {dataTable, element, frontierPlot, units} = shared;

const title = (text) => `${text[0].toUpperCase()}${text.slice(1)}`;

// The model of the plot, from the server's response and the job's summary, which the figures show, too.
const modelOf = ({vertices, operating_point: planned}, summary) => {
  const basis = basisOf(summary);
  const {parallel: {dp, tp}} = summary;
  // The frontier is that of one pipeline, the other figures those of all ranks.
  const ofPipeline = (figures) => (figures && units.isNumber(figures.time_s) && units.isNumber(figures.energy_j)
    ? {time_s: figures.time_s, energy_j: figures.energy_j / dp / tp} : null);
  const [baseline, measured] = [ofPipeline(summary.baseline), ofPipeline(summary)];
  const points = [
    ...(baseline ? [{...baseline, type: 'baseline', name: 'Baseline', label: `Baseline (${basis})`, basis}] : []),
    ...(planned ? [{...planned, type: 'plan', name: 'Operating point', label: 'Planned', basis: 'planned',
      chosen: true}] : []),
    ...(measured ? [{...measured, type: 'measured', name: 'Last iterations', label: title(basis), basis,
      isTarget: true}] : []),
  ];
  return {
    curve: vertices.map(([time_s, energy_j]) => ({time_s, energy_j})), separateBound: [], points, baseline,
    boundName: 'Frontier', boundBasis: 'planned', regionLabel: '',
    summary: `Time and energy of one iteration of one pipeline: frontier of ` +
      `${counted(vertices.length, 'vertex', 'vertices')} and ${counted(points.length, 'point')}. ` +
      'Arrow keys move between the points, plus and minus zoom, 0 shows all.',
  };
};

export class FrontierPanel {
  constructor() {
    this.plot = null;
    this.box = element('div', {class: 'plot marks frontier'});
    this.empty = element('p', {class: 'empty'});
    this.legend = element('ul', {class: 'legend marks', 'aria-label': 'Legend'});
    this.caption = element('p', {class: 'caption',
      text: 'All GPUs of one pipeline. The frontier is computed from the ' +
      'profile; neither axis starts at zero. Drag to move; click, then scroll to zoom (or Ctrl + scroll).'});
    this.table = new TableBehind('Points as a table', () => this.pointTable());
    this.tools = zoomTools('the frontier', (factor) => this.plot && this.plot.zoomBy(factor));
    this.node = panel('Time and energy of one iteration', {tools: [this.tools]},
      [this.legend, this.box, this.empty, this.caption, this.table.node]).node;
  }

  update(store) {
    const {summary} = store;
    const frontier = store.frontier && store.withdrawal() ? {...store.frontier, operating_point: null} : store.frontier;
    const invalid = invalidFigures(summary);
    const ready = Boolean(!invalid && frontier && frontier.vertices && frontier.vertices.length);
    for (const node of [this.box, this.caption, this.legend, this.table.node, this.tools]) node.hidden = !ready;
    this.empty.hidden = ready;
    if (!ready) {
      this.empty.textContent = invalid ? kInvalidFigures : isOver(summary) ? 'The job ended before its first plan.'
        : 'The frontier appears after profiling and the first plan.';
      return;
    }
    const model = modelOf(frontier, summary);
    const text = JSON.stringify([model, doubtMark(summary)]);
    if (text === this.drawn) return;
    this.drawn = text;
    this.model = model;
    const {lineSample, pointSample} = frontierPlot;
    this.legend.replaceChildren(...[[lineSample('curve'), `frontier (planned)${doubtMark(summary)}`],
      ...(frontier.operating_point ? [[pointSample('plan', 'plan chosen'), `operating point (planned)${doubtMark(summary)}`]] : []),
      [pointSample('measured', 'measured'), `last iterations (${basisOf(summary)})`],
      [pointSample('baseline', 'baseline'), `baseline (${basisOf(summary)})`]]
      .map(([node, name]) => element('li', {}, [node, name])));
    if (this.plot) {
      this.plot.update(this.model);
    } else {
      this.plot = new frontierPlot.Plot(this.box, this.model);
      shared.interaction.onResize(this.box, () => this.plot.layout());
    }
    this.table.update();
  }

  pointTable() {
    const curve = this.model.curve.map((point, i) => ({...point, name: `Frontier, vertex ${i + 1}`, basis: 'planned'}));
    return dataTable([{head: ['Point'], text: (row) => row.name}, {head: ['Basis'], text: (row) => row.basis},
      {head: ['Iteration time'], text: (row) => units.time(row.time_s, 5)},
      {head: ['Energy'], text: (row) => units.energy(row.energy_j, 5)}],
    [...this.model.points, ...curve.slice(0, 500)]);
  }

  onTheme() {}
}
