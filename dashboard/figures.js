// The most important figures.
import shared from './shared.js';
import {setClass, setText} from './parts.js';
import {basisOf, counted, doubtMark, guardText, hasEarlierSaving, invalidFigures, isBeforeFirstPlan, isOver, isPastGuard,
  noSavingReason, plansItself, savedText, unmeasuredText, versusPlan_pct} from './words.js';

const {element, units} = shared;

// Iterations of the server's means.
const kMeanOf = 20;

class Figure {
  constructor() {
    this.name = element('h3');
    this.value = element('p');
    this.detail = element('p', {class: 'detail'});
    this.node = element('div', {class: 'card'}, [this.name, this.value, this.detail]);
  }

  show(name, value, detail, mood = '', title = '') {
    setText(this.name, name);
    setText(this.value, value);
    setClass(this.value, `value ${mood}`);
    setText(this.detail, detail);
    this.value.title = title;
  }
}

// "while it followed plans: −9.0 % in 56 iterations"; empty where it followed none, or follows one.
const earlierText = (store) => {
  const earlier = hasEarlierSaving(store.summary) ? store.followedSaving() : null;
  return earlier ? `while it followed plans: ${units.signedPercent(-earlier.saved_pct, 1)} in ` +
    counted(earlier.iterations, 'iteration') : '';
};

const kMeaningless = 'not shown, as times and energies mean nothing';

const savingText = (store, basis) => {
  const {summary: job} = store;
  const {baseline, saved_pct: saved} = job;
  if (invalidFigures(job)) return kMeaningless;
  if (!baseline || !units.isNumber(baseline.energy_j)) {
    if (noSavingReason(job)) return noSavingReason(job);
    if (plansItself(job)) return 'The server measures no baseline of a job that plans its own steps.';
    return isBeforeFirstPlan(job) ? 'shown after the first plan' : 'Without a baseline the saving is unknown.';
  }
  const error = units.isNumber(baseline.energy_error_j) ? ` ± ${units.energy(baseline.energy_error_j, 2)}` : '';
  const text = `${units.energy(baseline.energy_j)}${error}, ` +
    `${counted(baseline.iterations, 'iteration')} at full clocks`;
  const later = isOver(job) ? 'no iteration followed a plan' : 'savings are shown from the first plan on';
  return units.isNumber(saved) ? `up to ${kMeanOf} iterations against a ${basis} baseline: ${text}`
    : `${basis} baseline: ${text}; ${earlierText(store) || noSavingReason(job) || unmeasuredText(job) || later}`;
};

const slowdownText = (job, basis) => {
  const {baseline, slowdown_pct: slowdown, slowdown_error_pct: error, stalled_iterations: stalled} = job;
  const without = stalled ? `, without ${counted(stalled, 'iteration')} that stalled` : '';
  if (units.isNumber(slowdown)) {
    const noise = units.isNumber(error) ? ` ± ${units.fixed(error, 1)}` : '';
    return `${units.signedPercent(slowdown, 1)}${noise} against the ${basis} baseline${without}`;
  }
  if (!baseline) return isBeforeFirstPlan(job) ? 'compared after the first plan' : noSavingReason(job) || 'no baseline';
  return `${basis} baseline ${units.time(baseline.time_s)}`;
};

// What the plan takes of its two limits: the user's is against the fastest plan, and not against the baseline.
const plannedText = (job) => {
  const {planned_time_s: planned, baseline, settings: {slowdown_pct: slowdown}} = job;
  const text = `planned ${units.time(planned)}${doubtMark(job)}`;
  if (!baseline || !units.isNumber(planned)) return text;
  return `${text}, ${units.signedPercent(versusPlan_pct(planned, baseline.time_s), 1)} against the baseline` +
    (slowdown ? ` (your ${units.percent(slowdown, Number.isInteger(slowdown) ? 0 : 1)} are against the fastest plan)` : '');
};

const kFarOff = 'took more than twice the predicted time';
// A clause on iterations that a figure leaves out, where others are left or not.
const farOffText = (stalled, left) => (stalled === 0 ? ''
  : left > 0 ? `, without ${counted(stalled, 'iteration')} that ${kFarOff}` : `, all of which ${kFarOff}`);

const timeText = ({summary: job, iterations}, basis) => {
  if (invalidFigures(job)) return kMeaningless;
  if (!plansItself(job)) {
    return [`mean of up to ${kMeanOf} iterations of this plan`, slowdownText(job, basis),
      `guard ${guardText(job)}`, plannedText(job)].join(' · ');
  }
  const {stalled_iterations: stalled} = job;
  return `mean of up to ${kMeanOf} iterations of their own lengths` +
    farOffText(stalled, Math.min(kMeanOf, iterations.length) - stalled);
};

const showPrediction = (figure, job, basis) => {
  const {prediction} = job;
  if (invalidFigures(job)) return figure.show('Predicted times', units.fixed(null), kMeaningless);
  if (!prediction) return figure.show('Predicted times', units.fixed(null), 'no iteration has been predicted yet');
  const {iterations, stalled_iterations: stalled, mean_error_pct: mean, rms_error_pct: rms} = prediction;
  if (!iterations) {
    return figure.show('Predicted times', units.fixed(null), counted(stalled, 'iteration') + farOffText(stalled, 0));
  }
  return figure.show('Predicted times', `off by ${units.signedPercent(mean, 1)}`,
    `predicted against ${basis}, on average; ${units.percent(rms, 1)} rms over ${counted(iterations, 'iteration')}` +
    `${farOffText(stalled, iterations)} · units of the longest replica at full clocks`);
};

// Which iterations follow the newest plan.
const reachText = (job) => {
  const [first, now] = [job.from_iteration ?? 0, job.iteration ?? 0];
  // Ranks may have begun any iteration before they have reported one.
  const from = first === 0 ? 'from the first iterations' : `from iteration ${first.toLocaleString('en')}`;
  if (first <= now) return `${from} · ${isOver(job) ? 'ended' : 'now'} at ${now.toLocaleString('en')}`;
  return isOver(job) ? `${from}, which the job did not reach: it ended at ${now.toLocaleString('en')}`
    : `${from} on; now still at ${now.toLocaleString('en')}`;
};

const mood = (job) => {
  if (!units.isNumber(job.saved_pct)) return '';
  // A saving within its error does not count.
  if (Math.abs(job.saved_pct) <= (job.saved_error_pct || 0)) return '';
  return job.saved_pct > 0 ? 'good' : 'bad';
};

export class Figures {
  constructor() {
    this.figures = Array.from({length: 5}, () => new Figure());
    this.node = element('div', {class: 'cards'}, this.figures.map(({node}) => node));
  }

  update(store) {
    const {summary: job} = store;
    const basis = basisOf(job);
    const [saved, time, energy, power, plan] = this.figures;
    saved.show(`Energy saved, ${basis}`, savedText(job), savingText(store, basis), mood(job));
    time.show(`Iteration time, ${basis}`, units.time(job.time_s), timeText(store, basis), isPastGuard(job) ? 'bad' : '');
    energy.show(`Energy per iteration, ${basis}`, units.energy(job.energy_j), invalidFigures(job) ? kMeaningless
      : ['mean of the same iterations', unmeasuredText(job), `all ${counted(job.ranks, 'rank')}`,
        ...(plansItself(job) ? [] : [`planned ${units.energy(job.planned_energy_j)}${doubtMark(job)}`])].filter(Boolean).join(' · '));
    const total_w = isOver(job) || invalidFigures(job) ? null : store.totalPower_w();
    power.show(`Power, ${basis}`, units.power(total_w), isOver(job) ? 'the job has ended: its GPUs are not read any more'
      : invalidFigures(job) ? kMeaningless : total_w === null ? 'not every GPU has reported' : `by the last report of each GPU, not a mean of iterations · ` +
        `${units.power(total_w / store.ranks.size)} per GPU on average`);
    if (plansItself(job)) return void showPrediction(plan, job, basis);
    const purposes = {baseline: 'full clocks, for the baseline', profile: 'full clocks, other clocks in single iterations',
      train: 'for training', full_clocks: store.withdrawal() || 'in place of a plan'};
    plan.show('Plan', job.plan_version ? store.planName(job.plan_version) : isOver(job) ? 'none' : 'none yet', job.plan_version
      ? `${purposes[job.purpose] || job.purpose} · ${reachText(job)}` : 'ranks follow no plan', '',
    job.plan_version ? `version ${job.plan_version} in the API` : '');
  }
}
