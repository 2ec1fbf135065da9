// Problems that affect the figures, or that a user should act on.
import shared from './shared.js';
import {announce} from './parts.js';
import {basisOf, clockTime, counted, guardLimit_pct, invalidFigures, isOver, isPastGuard, kStates, plansItself,
  problemsShown, profilingText} from './words.js';

const {element, units} = shared;

const kShownRanks = 8;

const list = (rows) => {
  const names = rows.slice(0, kShownRanks).map((row) => row.rank).join(', ');
  const more = rows.length > kShownRanks ? ` and ${rows.length - kShownRanks} more` : '';
  return `${rows.length === 1 ? 'rank' : 'ranks'} ${names}${more}`;
};

const having = (rows, problem) => rows.filter((row) => row.problems.includes(problem));

const capText = ({scope, watts, swing_w: swing}) => 'Power cap: ' + [
  ...(units.isNumber(watts) ? [`at most ${units.power(watts)} per ${scope === 'gpu' ? 'GPU' : scope}`] : []),
  ...(units.isNumber(swing) ? [`a swing of at most ${units.power(swing)} between pipeline phases`] : [])].join(', ') +
    '.';

// The server names GPUs by their UUID; on this page they are those of ranks.
const withRanks = (text, gpus) => gpus.reduce((named, {rank, host, gpu_uuid: uuid}) => (uuid
  ? named.replaceAll(`${uuid} (${host})`, `the GPU of rank ${rank} (${host})`) : named), text);

const problemAlert = ({critical, text: named, todo, gpus}) => {
  const text = withRanks(named, gpus || []);
  return [critical ? 'bad' : 'warn', `${text[0].toUpperCase()}${text.slice(1)}. What to do: ${todo}.`];
};

// [[severity, text]], the most severe first.
const alertsOf = ({summary: job}, rows, connection) => {
  const alerts = [];
  const add = (severity, text) => alerts.push([severity, text]);
  if (connection.state === 'away') {
    add('bad', 'The server does not respond: this page shows its last response. ' +
      `Training continues${plansItself(job) ? '' : ' with its last plan'}.`);
  }
  if (job.has_failed) {
    add('bad', `The job runs at full clocks, because planning failed: ${job.reason.replace(/\.?$/, '.')} ` +
      `${units.isNumber(job.retry_s) ? `The server tries again at ${clockTime(job.retry_s)}.` : ''}`);
  }
  for (const problem of problemsShown(job)) add(...problemAlert(problem));
  const silent = having(rows, 'silent');
  if (silent.length) add('bad', `No reports from ${list(silent)}: the figures shown are old.`);
  if (isPastGuard(job)) {
    add('bad', `Iterations take ${units.signedPercent(job.slowdown_pct, 1)} against the ${basisOf(job)} baseline, ` +
      `above the guard of ${units.percent(guardLimit_pct(job), 1)}: it withdraws plans once the job as a whole is later.`);
  }
  for (const {rank, factor, cause} of job.stragglers.slice(0, kShownRanks)) {
    add('warn', `Rank ${rank} is slower by a factor of ${units.fixed(factor, 2)} (${cause}): ` +
      `the other ranks wait for it${job.purpose === 'train' ? ', so the plan may lower their clocks' : ''}` +
      `${invalidFigures(job) ? '. This stays so while times mean nothing' : ''}.`);
  }
  const more = job.stragglers.length - kShownRanks;
  if (more > 0) add('warn', `${counted(more, 'more rank is', 'more ranks are')} slower.`);
  const hot = having(rows, 'hot');
  if (hot.length) add('warn', `Throttled by temperature: ${list(hot)}.`);
  const limited = having(rows, 'power-throttled');
  if (limited.length) add('warn', `The power limit holds clocks down on ${list(limited)}.`);
  for (const {rank, refusal} of having(rows, 'follows no plans').slice(0, kShownRanks)) {
    add('warn', `Rank ${rank} follows no plans: ${refusal}`);
  }
  const moreRefuse = having(rows, 'follows no plans').length - kShownRanks;
  if (moreRefuse > 0) add('warn', `${counted(moreRefuse, 'more rank follows', 'more ranks follow')} no plans.`);
  const late = having(rows, 'old plan');
  if (late.length) add('warn', `Following an older plan: ${list(late)}.`);
  if (job.power_cap) add('info', capText(job.power_cap));
  if (job.state === 'observing' && job.reason && !job.has_failed && !plansItself(job)) {
    add('info', `Full clocks: ${job.reason}`);
  }
  return alerts;
};

const kMarks = {bad: '!', warn: '!', info: 'i'};

export class Alerts {
  constructor() {
    this.node = element('ul', {class: 'alerts', 'aria-label': 'Alerts'});
    this.shown = '';
  }

  update(store, rows, connection) {
    const alerts = isOver(store.summary) && connection.state !== 'away' ? problemsShown(store.summary).map(problemAlert)
      : alertsOf(store, rows, connection);
    const text = JSON.stringify(alerts);
    if (text === this.shown) return;
    const before = new Set(this.shown ? JSON.parse(this.shown).map(([, line]) => line) : []);
    const fresh = alerts.filter(([severity, line]) => severity !== 'info' && !before.has(line));
    this.shown = text;
    this.node.hidden = alerts.length === 0;
    this.node.replaceChildren(...alerts.map(([severity, line]) => element('li', {class: severity},
      [element('span', {class: 'alert-mark', 'aria-hidden': 'true', text: kMarks[severity]}), line])));
    if (fresh.length) announce(`Alert: ${fresh[0][1]}`);
  }
}

// Progress of the job up to its first plan, or of one that plans its own steps.
const kOwnPath = ['registering', 'own steps'];
const kPath = ['registering', 'baseline', 'profiling', 'planning', 'running'];

// The reason of these states begins with what the state says, which ranks that do not follow may come after.
const newsIn = ({state, reason}) => {
  if (state !== 'profiling' && state !== 'planning') return reason || '';
  return (reason || '').split('; ').slice(1).join('; ');
};

export class Progress {
  constructor() {
    this.detail = element('p', {class: 'caption'});
    this.steps = element('ol', {class: 'steps', 'aria-label': 'Progress of the job'});
    this.node = element('div', {class: 'progress'}, [this.steps, this.detail]);
  }

  update({summary: job}) {
    const path = plansItself(job) ? kOwnPath : kPath;
    const at = path.indexOf(job.state);
    this.node.hidden = at < 0 || job.state === 'running';
    const trial = profilingText(job);
    const shown = JSON.stringify([job.state, job.registered, job.reason, trial]);
    if (this.node.hidden || this.shown === shown) return;
    this.shown = shown;
    this.steps.replaceChildren(...path.map((state, i) => element('li', {text: state,
      class: i < at ? 'done' : i === at ? 'current' : '', ...(i === at ? {'aria-current': 'step'} : {})})));
    const ranks = job.state === 'registering' ? `: ${job.registered} of ${counted(job.ranks, 'rank')}` : '';
    const more = newsIn(job);
    this.detail.textContent = `Now ${kStates[job.state]}${ranks}${trial && `: ${trial}`}.${more && ` ${more}`}`;
  }
}
