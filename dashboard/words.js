// Words and texts that several views use. *Measured*, *simulated* and *planned* are different things: figures of a job
// on simulated GPUs are never called measured.
import shared from './shared.js';
import {serverNow_s} from './api.js';

const {units} = shared;

export const basisOf = (job) => (job.simulated ? 'simulated' : 'measured');

export const kStates = {
  registering: 'waiting for all ranks to register',
  baseline: 'measuring the baseline at full clocks',
  profiling: 'trying clocks',
  planning: 'computing the first plan',
  running: 'following a plan',
  observing: 'full clocks; no plan is possible',
  finished: 'finished',
};
// A job that the server watches and does not plan.
export const plansItself = (job) => job.policy === 'steps';
export const isOver = (job) => job.state === 'finished';

// How a job's state is shown: [text, CSS class, meaning]. A job for which planning failed needs attention.
const kProblems = {clocks_stuck: 'clocks stuck', silent: 'silent', rank_failed: 'failed'};
// Of a job that is over, only a failed rank stays critical.
const kLastingProblems = ['rank_failed', 'figures_invalid', 'plan_doubtful', 'gpu_shared'];
export const problemsShown = (job) =>
  (job.problems || []).filter(({kind}) => !isOver(job) || kLastingProblems.includes(kind));
export const stateShown = (job) => {
  const critical = problemsShown(job).find((problem) => problem.critical);
  if (critical) return [kProblems[critical.kind] || critical.kind, 'chip state-failed', critical.text];
  if (job.has_failed) return ['no plan', 'chip state-failed', job.reason || ''];
  if (plansItself(job) && job.state === 'observing') {
    return ['plans its own steps', 'chip state-running',
      'each step has clocks for its own lengths, which the job plans'];
  }
  // The guard may have withdrawn the plan.
  const meaning = job.state === 'running' && job.reason || kStates[job.state] || '';
  return [job.state, `chip state-${job.state}`, meaning];
};

// A job that has no saving yet because its first plan is still to come.
export const isBeforeFirstPlan = (job) => ['registering', 'baseline', 'profiling', 'planning'].includes(job.state);

export const invalidFigures = (job) => (job.problems || []).find(({kind}) => kind === 'figures_invalid');
// After planned figures, which alerts say the doubts of.
export const doubtMark = (job) => ((job.problems || []).some(({kind}) => kind === 'plan_doubtful') ? ' (in doubt)' : '');
// In place of plots of such figures.
export const kInvalidFigures = 'Times and energies mean nothing: they are not shown.';

// Why a mean has no energy, or how many iterations it leaves out; empty where it is that of all.
export const unmeasuredText = ({unmeasured_iterations: count, energy_j: energy}) => (!count ? ''
  : units.isNumber(energy) ? `without ${counted(count, 'iteration')} whose energy is not known`
    : `the energy of ${counted(count, 'iteration')} is not known: not every rank has one that counts`);

// Why a job has no saving, in a few words.
const kNoSaving = {
  gpu_shared: 'shared GPU',
  baseline_uncertain: 'baseline uncertain',
  baseline_too_slow: 'baseline too slow',
  baselines_clocks: 'clocks of the baseline',
  iterations_stalled: 'iterations stalled',
};
export const noSavingReason = (job) => {
  const known = (job.problems || []).find(({kind}) => kNoSaving[kind]);
  return known && kNoSaving[known.kind];
};
// Whether iterations that followed plans before can be compared, although the present ones cannot.
export const hasEarlierSaving = (job) => !invalidFigures(job) && !isBeforeFirstPlan(job) &&
  [undefined, kNoSaving.baselines_clocks].includes(noSavingReason(job));
export const noSavingText = (job) => {
  if (invalidFigures(job)) return 'figures are invalid';
  if (isBeforeFirstPlan(job)) return 'after the first plan';
  const known = noSavingReason(job);
  if (known) return known;
  if (!job.baseline || !units.isNumber(job.baseline.energy_j)) return 'no baseline';
  if (!units.isNumber(job.energy_j) && unmeasuredText(job)) return 'energy not known';
  if (isOver(job)) return 'followed no plan';
  return job.state === 'running' ? 'from the new plan on' : 'from the next plan on';
};

// Long hexadecimal names, as runs and models may have, are shortened to what tells them apart.
export const shortName = (text) => (text || '').replace(/\b[0-9a-f]{12,}\b/g, (hex) => `${hex.slice(0, 8)}…`);

// Without its middle where a text is too long for a cell.
const kCellLetters = 48;
export const inCell = (text) => (text.length > kCellLetters
  ? `${text.slice(0, kCellLetters / 2)}…${text.slice(1 - kCellLetters / 2)}` : text);

// "clock 3 of 7, about 2 min"; empty while no clocks are tried.
export const profilingText = ({profiling, time_s: time}) => {
  if (!profiling) return '';
  const {clock, clocks, round, remaining_iterations: left} = profiling;
  const rest = units.isNumber(time) && left > 0 ? `, about ${duration(Math.max(1, left * time))}` : '';
  return `clock ${clock} of ${clocks}${round > 1 ? ` in round ${round}` : ''}${rest}`;
};

export const counted = (count, one, many = `${one}s`) => `${count.toLocaleString('en')} ${count === 1 ? one : many}`;

export const parallelText = ({pp, dp, tp, chunks}) =>
  `pp ${pp} × dp ${dp} × tp ${tp}${chunks > 1 ? `, ${chunks} chunks` : ''}`;

// The work of a job, for example "6 of 24 layers frozen, bf16".
export const workText = ({layers, frozen_layers: frozen, precision}) =>
  `${frozen ? `${frozen} of ${counted(layers, 'layer')} frozen` : counted(layers, 'layer')}, ${precision}`;

// "12 s", "3 min", "2 h", "5 d".
export const duration = (time_s) => {
  if (!units.isNumber(time_s)) return units.fixed(null);
  const kSteps = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const [size, name] = kSteps.find(([step]) => time_s >= 2 * step) || [1, 's'];
  return `${Math.max(0, Math.floor(time_s / size))}\u00a0${name}`;
};

// Mean SM clock with the range of its readings, for example "1215 MHz (1005–1410)".
export const smClock = ({sm_clock_mhz: mean, sm_clock_min_mhz: low, sm_clock_max_mhz: high}, unit = '') => {
  if (!units.isNumber(mean)) return units.fixed(null) + unit;
  const range = units.isNumber(low) && units.isNumber(high) && high > low
    ? ` (${units.fixed(low, 0)}–${units.fixed(high, 0)})` : '';
  return `${units.fixed(mean, 0)}${unit}${range}`;
};

export const temperature = (value_c) => (units.isNumber(value_c) ? `${units.fixed(value_c, 0)}\u00a0°C` : '– °C');

export const age_s = (time_s) => (units.isNumber(time_s) ? Math.max(0, serverNow_s() - time_s) : null);

const pad = (number) => String(number).padStart(2, '0');
export const clockTime = (time_s) => {
  const date = new Date(1000 * time_s);
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
};
export const dateTime = (time_s) => {
  const date = new Date(1000 * time_s);
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${clockTime(time_s)}`;
};

// Saved energy with its error, for example "14.7 ± 0.3 %"; a dash without a baseline.
export const savedText = (job) => {
  if (!units.isNumber(job.saved_pct)) return units.fixed(null);
  const error = units.isNumber(job.saved_error_pct) ? ` ± ${units.fixed(job.saved_error_pct, 1)}` : '';
  return `${units.fixed(job.saved_pct, 1)}${error}\u00a0%`;
};

// How much longer than the baseline iterations may take before plans are withdrawn.
export const guardLimit_pct = (job) => job.guard_limit_pct;

// The same with its parts, where a budget or a signal adds nothing: "+4.0 % = your 2 % + 2 %".
export const guardText = (job) => {
  const {slowdown_pct: slowdown, guard_pct: guard} = job.settings;
  const limit = guardLimit_pct(job);
  const [own, more] = [slowdown, guard].map((pct) => units.percent(pct, Number.isInteger(pct) ? 0 : 1));
  const parts = Math.abs(slowdown + guard - limit) < 1e-9 ? ` = your ${own} + ${more}` : '';
  return `${units.signedPercent(limit, 1)}${parts}`;
};

// Waiting for a straggler is no fault of the plan, nor are full clocks in its place, which the guard may have set.
export const isPastGuard = (job) => !job.stragglers.length && job.purpose !== 'full_clocks' &&
  units.isNumber(job.slowdown_pct) && job.slowdown_pct > guardLimit_pct(job);

export const versusPlan_pct = (time_s, planned_s) =>
  (units.isNumber(time_s) && units.isNumber(planned_s) && planned_s > 0 ? 100 * (time_s / planned_s - 1) : null);

// How far a prediction is from what was measured; above 0 where it is too long.
export const predictionError_pct = ({predicted_time_s: predicted_s, units_time_s: units_s}) =>
  versusPlan_pct(predicted_s, units_s);
