// State and problems of a rank: the only place that decides them, for the table, the map and the alerts.
import shared from './shared.js';
import {serverNow_s} from './api.js';
import {invalidFigures, isOver} from './words.js';

const {units} = shared;

const kSilentAtLeast_s = 30;
const kSilentIterations = 5;
const kSlowFactor = 1.02;
const kThrottledShare = 0.01;
const kReporting = ['baseline', 'profiling', 'planning', 'running', 'observing'];

// A rank reports with every iteration: several iterations without a report mean silence.
const silentAfter_s = (summary) => Math.max(kSilentAtLeast_s, kSilentIterations * (summary.time_s || 0));

// Times and energies that mean nothing.
const withoutFigures = ({report, gpu_now: now}) => ({factor: null, report: {...report, compute_s: null, energy_j: null},
  now: {...now, power_w: null}});

const rankRow = (store, rank) => {
  const {summary} = store;
  const report = rank.report || {};
  const heard_s = store.heard_s.get(rank.rank) ?? null;
  const age_s = heard_s === null ? null : Math.max(0, serverNow_s() - heard_s);
  const reported = summary.stragglers.find((straggler) => straggler.rank === rank.rank);
  const row = {...rank, ended: rank.finished || isOver(summary), report, age_s, now: rank.gpu_now || {}, cause: reported ? reported.cause : '',
    ...(invalidFigures(summary) ? withoutFigures(rank) : {}),
    plan: units.isNumber(report.plan_version) ? store.planName(report.plan_version) : units.fixed(null)};
  row.problems = problemsOf(row, summary);
  return row;
};

const problemsOf = ({report, age_s, factor, finished, failure, cause, refusal}, summary) => {
  if (failure) return ['failed'];
  const problems = [];
  if (finished || !kReporting.includes(summary.state)) return problems;
  if (age_s !== null && age_s > silentAfter_s(summary)) problems.push('silent');
  if (cause || (units.isNumber(factor) && factor >= kSlowFactor)) problems.push('slow');
  if (report.throttled_power >= kThrottledShare) problems.push('power-throttled');
  if (report.throttled_thermal >= kThrottledShare) problems.push('hot');
  if (refusal) problems.push('follows no plans');
  const isLate = !refusal && units.isNumber(report.iteration) && report.iteration >= summary.from_iteration &&
    units.isNumber(report.plan_version) && report.plan_version < summary.plan_version;
  if (isLate) problems.push('old plan');
  return problems;
};

export const rankRows = (store) => [...store.ranks.values()].sort((a, b) => a.rank - b.rank)
  .map((rank) => rankRow(store, rank));
