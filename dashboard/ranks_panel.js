// The table of ranks, with a map above it when there are many.
import shared from './shared.js';
import {KeyedTable} from './keyed_table.js';
import {panel, setClass, setText} from './parts.js';
import {RankMap} from './rank_map.js';
import {basisOf, counted, duration, invalidFigures, kInvalidFigures, smClock} from './words.js';

const {element, interaction, units} = shared;

const kMapFrom = 17;
const kPlaces = ['pp_rank', 'dp_rank', 'tp_rank'];
const share = (value) => (units.isNumber(value) ? 100 * value : null);
const number = (value, digits) => (units.isNumber(value) ? units.fixed(value, digits) : units.fixed(null));

const throttled = ({report}) => {
  const causes = [['power', share(report.throttled_power)], ['heat', share(report.throttled_thermal)]]
    .filter(([, pct]) => pct > 0);
  if (causes.length) return causes.map(([cause, pct]) => `${cause} ${units.percent(pct, 0)}`).join(', ');
  return units.isNumber(report.throttled_power) ? 'no' : units.fixed(null);
};

const kColumns = [
  {head: 'Rank', text: (row) => String(row.rank), sort: (row) => row.rank},
  {head: 'Place', unit: 'pp, dp, tp', css: 'text', text: (row) => kPlaces.map((name) => row[name] ?? '–').join(', '),
    sort: (row) => kPlaces.reduce((sum, name) => sum * 65536 + (row[name] || 0), 0)},
  {head: 'Host', css: 'text', text: (row) => row.host || units.fixed(null), sort: (row) => row.host},
  {head: 'State', css: 'text', sort: (row) => -row.problems.length, fill: (cell, row) => {
    setClass(cell, row.problems.length ? 'text problems' : 'text');
    setText(cell, row.failure ? `failed: ${row.failure}` : row.problems.join(', ') || (row.finished ? 'finished' : ''));
  }},
  {head: 'Factor', unit: 'compute time / planned', text: (row) => number(row.factor, 3),
    sort: (row) => row.factor ?? null},
  {head: 'Compute', text: (row) => units.time(row.report.compute_s), sort: (row) => row.report.compute_s ?? null},
  {head: 'SM clock', unit: 'MHz', text: (row) => smClock(row.now),
    sort: (row) => row.now.sm_clock_mhz ?? null},
  {head: 'Temp.', unit: '°C', text: (row) => number(row.now.temperature_c, 0),
    sort: (row) => row.now.temperature_c ?? null},
  {head: 'Power', unit: 'W', text: (row) => number(row.now.power_w, 0), sort: (row) => row.now.power_w ?? null},
  {head: 'Energy', unit: 'last iteration', text: (row) => units.energy(row.report.energy_j),
    sort: (row) => row.report.energy_j ?? null},
  {head: 'Throttled', unit: 'share of time', css: 'text', text: throttled,
    sort: (row) => -((row.report.throttled_power || 0) + (row.report.throttled_thermal || 0))},
  {head: 'Plan', css: 'text', fill: (cell, row) => {
    setText(cell, row.plan);
    cell.title = row.report.plan_version > 0 ? `version ${row.report.plan_version} in the API` : '';
  },
    sort: (row) => row.report.plan_version ?? null},
  {head: 'Last report', text: (row) => (row.age_s === null ? 'never' : `${duration(row.age_s)} ago`),
    sort: (row) => row.age_s},
];

export class RanksPanel {
  constructor() {
    this.search = element('input', {type: 'search', placeholder: 'Rank, host …', 'aria-label': 'Filter ranks'});
    this.onlyProblems = element('button', {type: 'button', text: 'Needs attention', 'aria-pressed': 'false'});
    this.onlyProblems.addEventListener('click', () => {
      this.onlyProblems.setAttribute('aria-pressed', String(!this.isOnlyProblems));
      this.draw();
    });
    this.search.addEventListener('input', interaction.perFrame(() => this.draw()));
    this.table = new KeyedTable('Ranks', kColumns, (row) => String(row.rank),
      {empty: 'No rank matches.', rowClass: (row) => (row.problems.length ? 'attention' : '')});
    this.table.node.classList.add('tall');
    this.note = '';
    this.map = new RankMap((rank) => this.find(rank));
    this.count = element('p', {class: 'caption'});
    const {node, setBasis} = panel('Ranks', {tools: [this.search, this.onlyProblems], css: 'wide ranks'},
      [this.count, this.map.node, this.table.node]);
    Object.assign(this, {node, setBasis, rows: []});
  }

  get isOnlyProblems() { return this.onlyProblems.getAttribute('aria-pressed') === 'true'; }

  find(rank) {
    this.search.value = String(rank);
    this.draw();
    this.table.node.scrollIntoView({block: 'nearest'});
  }

  update(store, rows) {
    this.rows = rows;
    this.setBasis(basisOf(store.summary));
    this.note = invalidFigures(store.summary) ? ` ${kInvalidFigures}` : '';
    this.map.node.hidden = rows.length < kMapFrom;
    if (rows.length >= kMapFrom) this.map.update(rows, store.summary.parallel);
    this.draw();
  }

  draw() {
    const wanted = this.search.value.trim().toLowerCase();
    const matches = (row) => (/^\d+$/.test(wanted) ? String(row.rank) === wanted
      : [row.host, row.gpu_uuid, ...row.problems].some((text) => (text || '').toLowerCase().includes(wanted)));
    const shown = this.rows.filter((row) => (!wanted || matches(row)) && (!this.isOnlyProblems || row.problems.length));
    const kinds = new Map();
    for (const problem of this.rows.flatMap((row) => row.problems)) kinds.set(problem, (kinds.get(problem) || 0) + 1);
    const problems = [...kinds].map(([kind, count]) => `${count} ${kind}`).join(', ') || 'none needs attention';
    setText(this.count, `${counted(this.rows.length, 'rank')}; ${problems}` +
      (shown.length < this.rows.length ? `; ${shown.length} shown.` : '.') + this.note);
    this.table.update(shown);
  }

  onTheme() { this.map.draw(); }
}
