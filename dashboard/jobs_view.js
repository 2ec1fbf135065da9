// The list of jobs.
import shared from './shared.js';
import {get} from './api.js';
import {BudgetsPanel} from './budgets_panel.js';
import {KeyedTable} from './keyed_table.js';
import {LiveStream} from './live.js';
import {message, panel, setClass, setText} from './parts.js';
import {age_s, basisOf, counted, dateTime, doubtMark, duration, inCell, isOver, noSavingText, plansItself,
  profilingText, savedText, shortName, stateShown, versusPlan_pct} from './words.js';

const {element, interaction, units} = shared;

const fillName = (cell, job) => {
  if (!cell.firstChild) {
    cell.append(element('a', {class: 'job-link'}), element('small'));
  }
  const [link, run] = cell.children;
  link.setAttribute('href', `#/jobs/${encodeURIComponent(job.job)}`);
  setText(link, inCell(job.name || job.job));
  link.title = job.name || job.job;
  setText(run, inCell(shortName(job.run)));
  run.title = job.run;
};

const fillState = (cell, job) => {
  if (!cell.firstChild) {
    const simulated = element('span', {class: 'chip simulated', text: 'simulated'});
    cell.append(element('span'), ' ', simulated, element('small'));
  }
  const [state, simulated, detail] = cell.children;
  const [text, css, title] = stateShown(job);
  setClass(state, css);
  setText(state, text);
  state.title = title;
  simulated.hidden = !job.simulated;
  const stragglers = job.stragglers.map(({rank, factor}) => `rank ${rank}: ${units.fixed(factor, 2)} times as long`);
  setText(detail, [profilingText(job), stragglers.length ? counted(stragglers.length, 'straggler') : '']
    .filter(Boolean).join(' · '));
  detail.title = stragglers.join(', ');
};

const two = (cell, first, second) => {
  if (!cell.firstChild) cell.append(element('span'), element('small'));
  setText(cell.children[0], first);
  setText(cell.children[1], second);
};

const versusText = (job) => {
  if (!plansItself(job)) {
    return !units.isNumber(job.time_s) || !units.isNumber(job.planned_time_s) ? '' : `${units.signedPercent(versusPlan_pct(job.time_s, job.planned_time_s), 1)} against plan${doubtMark(job)}`;
  }
  if (!job.prediction) return '';
  if (!job.prediction.iterations) return 'more than twice the predictions';
  return `predictions off by ${units.signedPercent(job.prediction.mean_error_pct, 1)}`;
};

const kColumns = [
  {head: 'Job', css: 'text', fill: fillName, sort: (job) => job.name},
  {head: 'State', css: 'text', fill: fillState, sort: (job) => job.state},
  {head: 'Model', css: 'text model', fill: (cell, job) => {
    two(cell, inCell(shortName(job.model)), job.gpu || '');
    cell.firstChild.title = job.model || '';
  },
    sort: (job) => job.model},
  {head: 'Ranks', text: (job) => (job.registered < job.ranks ? `${job.registered} of ${job.ranks}` : String(job.ranks)),
    sort: (job) => job.ranks},
  {head: 'Iteration',
    text: (job) => (units.isNumber(job.iteration) ? job.iteration.toLocaleString('en') : units.fixed(null)),
    sort: (job) => job.iteration},
  {head: 'Iteration time', fill: (cell, job) => two(cell, units.time(job.time_s), versusText(job)),
    sort: (job) => job.time_s},
  {head: 'Energy per iteration', text: (job) => units.energy(job.energy_j), sort: (job) => job.energy_j},
  {head: 'Energy saved', fill: (cell, job) => two(cell, savedText(job),
    units.isNumber(job.saved_pct) ? `of a ${basisOf(job)} baseline` : noSavingText(job)), sort: (job) => job.saved_pct},
  {head: 'Started', fill: (cell, job) => two(cell, `${duration(age_s(job.created_s))} ago`, dateTime(job.created_s)),
    sort: (job) => job.created_s},
];

const kFilters = [['all', 'All', () => true], ['active', 'Active', (job) => !isOver(job)],
  ['over', 'Finished', isOver]];

const shellWord = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
const socketOf = (server) => shellWord(`unix:${server.unix}`);

const whereToStart = (server) => (server.job_tokens
  ? 'Start one with the command below; train.token holds a token with the scope jobs. On the server\u2019s own machine ' +
    `--server ${socketOf(server)} needs none.`
  : 'Start one on the server\u2019s own machine with the command below. For jobs of other machines the server needs ' +
    'a token with the scope jobs (lowgear serve --token-file).');

const startCommand = (server) => {
  const start = server.job_tokens
    ? `LOWGEAR_SERVER_TOKEN_FILE=train.token lowgear run --server ${location.origin}`
    : `lowgear run --server ${socketOf(server)}`;
  return `${start} -- torchrun --nproc-per-node 8 train.py`;
};

export class JobsView {
  constructor(container, {onState, onRefused}) {
    this.container = container;
    this.jobs = new Map();
    this.filter = 'all';
    this.table = new KeyedTable('Jobs', kColumns, (job) => job.job, {empty: 'No job matches.',
      rowClass: (job) => (isOver(job) ? 'over' : '')});
    this.budgets = new BudgetsPanel((job) => (this.jobs.get(job) || {}).name || job);
    this.redraw = interaction.perFrame(() => this.draw());
    this.stream = new LiveStream('/v1/events', {
      catchUp: (signal) => this.load(signal), onState, onRefused,
      onEvent: (name, event) => {
        if (name !== 'job') return;
        this.jobs.set(event.job, event);
        this.redraw();
      },
    });
    document.title = 'Jobs – Lowgear';
    container.replaceChildren(message('Loading', 'Loading jobs from the server …'));
    this.clock = setInterval(this.redraw, 10000);
    this.stream.run();
  }

  stop() {
    clearInterval(this.clock);
    this.budgets.stop();
    this.stream.stop();
  }

  onTheme() {}

  async load(signal) {
    const {jobs, server} = await get('/v1/jobs', {signal});
    this.jobs = new Map(jobs.map((job) => [job.job, job]));
    await this.budgets.load().catch(() => {});  // it tries again by itself
    if (!this.panel) this.build(server);
    this.draw();
  }

  build(server) {
    this.search = element('input', {type: 'search', placeholder: 'Name, model, GPU …', 'aria-label': 'Filter jobs'});
    this.search.addEventListener('input', this.redraw);
    this.choices = kFilters.map(([key, text]) => {
      const node = element('button', {type: 'button', text, 'aria-pressed': String(key === this.filter)});
      node.addEventListener('click', () => {
        this.filter = key;
        this.choices.forEach((choice, i) => choice.setAttribute('aria-pressed', String(kFilters[i][0] === key)));
        this.draw();
      });
      return node;
    });
    this.count = element('p', {class: 'caption'});
    this.panel = panel('Jobs', {tools: [this.search, ...this.choices], css: 'jobs'}, [this.count, this.table.node]);
    this.none = message('No jobs yet', 'A job appears here when its first rank registers with this server. ' +
      'Its first plan follows when all its ranks have registered. ' + whereToStart(server),
    [element('pre', {class: 'command', tabindex: '0', 'aria-label': 'Command that attaches a job'},
      [element('code', {text: startCommand(server)})])]);
    this.container.replaceChildren(element('h1', {class: 'visually-hidden', text: 'Jobs'}), this.budgets.node, this.panel.node,
      this.none);
  }

  draw() {
    if (!this.panel) return;
    const all = [...this.jobs.values()].sort((a, b) => b.created_s - a.created_s);
    this.panel.node.hidden = all.length === 0;
    this.none.hidden = all.length !== 0;
    const wanted = this.search.value.trim().toLowerCase();
    const [, , inFilter] = kFilters.find(([key]) => key === this.filter);
    const matches = (job) => inFilter(job) &&
      [job.name, job.run, job.job, job.model, job.gpu, job.state]
        .some((text) => (text || '').toLowerCase().includes(wanted));
    const shown = all.filter(matches);
    const active = all.filter((job) => !isOver(job)).length;
    setText(this.count, `${counted(all.length, 'job')}, ${active} active` +
      (shown.length < all.length ? `; ${shown.length} shown` : '') + '. Time and energy: means of up to 20 last iterations, ' +
      'all ranks together. Savings are relative to the same job\u2019s baseline at full clocks.');
    this.table.update(shown);
    document.documentElement.dataset.jobs = String(shown.length);
  }
}
