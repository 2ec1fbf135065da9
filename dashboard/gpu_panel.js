// Power of every GPU over the last minutes: small multiples on one scale.
import shared from './shared.js';
import {kPowerWindow} from './job_store.js';
import {serverNow_s} from './api.js';
import {button, panel, setClass, setText} from './parts.js';
import {basisOf, counted, duration, invalidFigures, isOver, kInvalidFigures, smClock, temperature} from './words.js';

const {element, units} = shared;

const kPerPage = 24;
const kWidth = 200;
const kHeight = 44;
const kShortestWindow_s = 20;
const kOrders = [['rank', 'by rank'], ['attention', 'needing attention first'], ['power', 'highest power first'],
  ['heat', 'hottest first']];

const svgNode = (name, attributes) => {
  const node = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
};

class Tile {
  constructor() {
    this.name = element('h3');
    this.power = element('p', {class: 'power'});
    this.detail = element('p', {class: 'detail'});
    this.limit = svgNode('line', {class: 'limit', x1: 0, x2: kWidth});
    this.path = svgNode('path', {class: 'series'});
    this.svg = svgNode('svg', {viewBox: `0 0 ${kWidth} ${kHeight}`, preserveAspectRatio: 'none',
      'aria-hidden': 'true'});
    this.svg.append(this.limit, this.path);
    this.node = element('li', {}, [this.name, this.power, this.svg, this.detail]);
  }

  // `window_s`: how much time the plot spans; `top_w`: its highest power.
  update(row, points, {window_s, top_w}) {
    setClass(this.node, row.problems.length ? 'tile attention' : 'tile');
    setText(this.name, `GPU ${row.rank}${row.host ? ` · ${row.host}` : ''}`);
    setText(this.power, row.ended ? 'ended' : units.isNumber(row.now.power_w) ? `${units.fixed(row.now.power_w, 0)}\u00a0W`
      : units.fixed(null));
    const now = row.ended ? [] : [smClock(row.now, '\u00a0MHz'), temperature(row.now.temperature_c)];
    setText(this.detail, [`${units.energy(row.report.energy_j)} in the last iteration`, ...now, ...row.problems].join(' · '));
    const end_s = serverNow_s();
    const x = (time_s) => kWidth * (1 - (end_s - time_s) / window_s);
    const y = (power_w) => kHeight - 2 - (kHeight - 4) * power_w / top_w;
    const line = d3.svg.line().x((point) => x(point.time_s)).y((point) => y(point.power_w)).interpolate('step-after')
      .defined((point) => units.isNumber(point.power_w));
    this.path.setAttribute('d', line(points) || '');
    this.limit.toggleAttribute('hidden', !row.power_limit_w);
    const limitY = row.power_limit_w ? y(row.power_limit_w) : 0;
    this.limit.setAttribute('y1', limitY);
    this.limit.setAttribute('y2', limitY);
  }
}

export class GpuPanel {
  constructor() {
    this.page = 0;
    this.tiles = [];
    this.previous = button('‹', () => this.turn(-1), {'aria-label': 'Previous GPUs'});
    this.next = button('›', () => this.turn(1), {'aria-label': 'Next GPUs'});
    this.order = element('select', {'aria-label': 'Order of GPUs'},
      kOrders.map(([value, text]) => element('option', {value, text})));
    this.order.addEventListener('change', () => { this.page = 0; this.draw(); });
    this.caption = element('p', {class: 'caption'});
    this.list = element('ul', {class: 'tiles', 'aria-label': 'Power of each GPU'});
    const {node, setBasis} = panel('GPU power', {tools: [this.order, this.previous, this.next], css: 'wide'},
      [this.list, this.caption]);
    Object.assign(this, {node, setBasis, rows: [], store: null});
  }

  turn(pages) {
    this.page += pages;
    this.draw();
  }

  update(store, rows) {
    this.rows = rows;
    this.store = store;
    this.setBasis(basisOf(store.summary));
    this.draw();
  }

  ordered() {
    const value = {rank: (row) => row.rank, attention: (row) => -row.problems.length,
      power: (row) => -(row.now.power_w || 0),
      heat: (row) => -(row.now.temperature_c || 0)}[this.order.value];
    return [...this.rows].sort((a, b) => value(a) - value(b));
  }

  draw() {
    const pages = Math.max(1, Math.ceil(this.rows.length / kPerPage));
    this.page = Math.max(0, Math.min(pages - 1, this.page));
    this.previous.disabled = this.page === 0;
    this.next.disabled = this.page === pages - 1;
    this.previous.hidden = this.next.hidden = pages === 1;
    this.order.hidden = this.rows.length < 2;
    const first = this.page * kPerPage;
    const shown = this.ordered().slice(first, first + kPerPage);
    while (this.tiles.length > shown.length) this.tiles.pop().node.remove();
    while (this.tiles.length < shown.length) {
      this.tiles.push(new Tile());
      this.list.append(this.tiles[this.tiles.length - 1].node);
    }
    const invalid = invalidFigures(this.store.summary);
    const points = shown.map((row) => (!invalid && this.store.power.get(row.rank)) || []);
    const top_w = Math.max(1, ...shown.map((row) => row.power_limit_w || 0),
      ...points.flat().map((point) => point.power_w || 0));
    const first_s = d3.min(points.flat(), (point) => point.time_s) ?? Infinity;
    const window_s = Math.min(kPowerWindow, Math.max(kShortestWindow_s, serverNow_s() - first_s));
    shown.forEach((row, i) => this.tiles[i].update(row, points[i], {window_s, top_w}));
    const which = pages > 1 ? `${first + 1} to ${first + shown.length} of ${counted(this.rows.length, 'GPU')}. ` : '';
    const isRead = this.rows.some((row) => !row.ended);
    const who = isOver(this.store.summary) ? 'The job has ended: its' : 'The ranks that had registered have ended: their';
    setText(this.caption, !isRead && this.rows.length ? `${which}${who} GPUs are not read any more.`
      : invalid ? which + kInvalidFigures
      : `${which}The last ${duration(window_s)} (at most ${kPowerWindow / 60} min, since this ` +
      `page was opened), all on the same scale from 0 to ${units.fixed(top_w, 0)} W. Dashed: the GPU's power limit.`);
  }

  onTheme() {}
}
