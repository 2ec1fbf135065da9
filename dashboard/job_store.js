// Data of one job, from requests and events. The same item may arrive twice.
import {get, jobPath, serverNow_s} from './api.js';

const kPage = 500;
const kKeptIterations = 5000;
const kKeptDecisions = 5000;
const kPowerWindow_s = 300;

export class JobStore {
  constructor(job) {
    this.job = job;
    this.summary = null;
    this.spec = null;
    this.ranks = new Map();      // rank => document
    this.iterations = [];        // by iteration
    this.decisions = [];         // by id
    this.requested = {iteration: -1, decision: 0};  // newest that came by requests; events may come before older items
    this.plans = new Map();      // version => {purpose, name}, of plans that were issued
    this.droppedDecisions = 0;   // that the server no longer keeps
    this.power = new Map();      // rank => [{time_s, power_w}] since the page was opened
    this.heard_s = new Map();    // rank => server's time of its last report
    this.frontier = null;
    this.plan = null;
  }

  path(rest) { return jobPath(this.job, rest); }

  // Requests everything newer than the present data.
  async catchUp(signal) {
    const {job, spec, ranks} = await get(this.path(''), {signal});
    this.takeSummary(job);
    this.spec = spec;
    for (const rank of ranks) this.takeRank(rank);
    await this.loadIterations(signal);
    await this.loadDecisions(signal);
  }

  async loadRanks(signal) {
    const {ranks} = await get(this.path(''), {signal});
    for (const rank of ranks) this.takeRank(rank);
  }

  takeSummary(summary) { this.summary = summary; }

  takeRank(rank) {
    this.ranks.set(rank.rank, rank);
    if (rank.heard_s) this.heard_s.set(rank.rank, Math.max(rank.heard_s, this.heard_s.get(rank.rank) || 0));
    if (rank.gpu_now) this.addPower(rank.rank, rank.gpu_now.power_w);
  }

  async loadIterations(signal) {
    const newest = this.summary.iteration ?? 0;
    const {requested} = this;
    requested.iteration = Math.max(requested.iteration, newest - 2 * kPage);
    for (let isWhole = false; !isWhole;) {
      const {iterations} = await get(this.path(`/iterations?after=${requested.iteration}&limit=${kPage}`), {signal});
      iterations.forEach((iteration) => this.takeIteration(iteration));
      if (iterations.length) requested.iteration = iterations[iterations.length - 1].iteration;
      isWhole = iterations.length < kPage;
    }
  }

  async loadDecisions(signal) {
    const {requested} = this;
    for (let isWhole = false; !isWhole;) {
      const {decisions, dropped} = await get(this.path(`/decisions?after=${requested.decision}&limit=${kPage}`), {signal});
      this.droppedDecisions += dropped;
      decisions.forEach((decision) => this.takeDecision(decision));
      if (decisions.length) requested.decision = decisions[decisions.length - 1].id;
      isWhole = decisions.length < kPage;
    }
  }

  takeIteration(iteration) {
    this.iterations = inserted(this.iterations, iteration, 'iteration', kKeptIterations);
  }

  // Returns whether the decision is new.
  takeDecision(decision) {
    const before = this.decisions.length ? this.decisions[this.decisions.length - 1].id : -1;
    this.decisions = inserted(this.decisions, decision, 'id', kKeptDecisions);
    if (decision.purpose) this.takePlan(decision);
    return decision.id > before;
  }

  // Plans for training are numbered by their versions, as an event may come before older decisions; the others are named
  // after what they are for.
  takePlan({plan_version: version, purpose, reason}) {
    if (this.plans.has(version)) return;
    const names = {profile: 'profiling', full_clocks: 'full clocks'};
    this.plans.set(version, {purpose, reason, name: names[purpose] || purpose});
    const trained = [...this.plans].filter(([, plan]) => plan.purpose === 'train')
      .sort(([one], [other]) => one - other);
    trained.forEach(([, plan], i) => { plan.name = `plan ${i + 1}`; });
  }

  // `version`: null where ranks follow different plans, 0 where none does.
  planName(version) {
    if (version === null || version === undefined) return 'ranks differ';
    if (version === 0) return 'none';
    return this.plans.has(version) ? this.plans.get(version).name : 'an older plan';
  }

  // Why the job runs at full clocks in place of a plan; empty where it does not.
  withdrawal() {
    const {plan_version: version, state} = this.summary || {};
    const plan = this.plans.get(version) || {};
    if (plan.purpose !== 'full_clocks') return state === 'observing' ? 'no plan is followed' : '';
    const why = plan.reason.replace(/^full clocks: /, '').replace(/; (from iteration \d+|as soon as all ranks have it)$/, '');
    return this.decisions.some(({kind, reason}) => kind === 'guard' && reason.includes(why)) ? 'withdrawn by the guard'
      : 'no plan is followed';
  }

  // Of the iterations here that followed plans for training, against the baseline; null where there are none, or where
  // the baseline was measured anew after them.
  followedSaving() {
    const {baseline} = this.summary;
    const plans = this.decisions.filter(({purpose}) => purpose === 'train');
    const newest = plans.length ? plans[plans.length - 1].id : Infinity;
    if (this.decisions.some(({id, kind}) => kind === 'baseline' && id > newest)) return null;
    const followed = this.iterations.filter(({plan_version: version, energy_j: energy}) =>
      typeof energy === 'number' && (this.plans.get(version) || {}).purpose === 'train');
    if (!followed.length) return null;
    const mean_j = followed.reduce((sum, {energy_j: energy}) => sum + energy, 0) / followed.length;
    return {iterations: followed.length, saved_pct: 100 * (1 - mean_j / baseline.energy_j)};
  }

  isProfiling({plan_version: version, trial_mhz: trial}) {
    return typeof trial === 'number' || (this.plans.get(version) || {}).purpose === 'profile';
  }

  takeGpu({rank, energy_j, ...now}) {
    const known = this.ranks.get(rank) || {rank};
    this.ranks.set(rank, {...known, gpu_now: now,
      report: {...known.report, energy_j}});
    this.heard_s.set(rank, serverNow_s());
    this.addPower(rank, now.power_w);
  }

  addPower(rank, power_w) {
    const time_s = serverNow_s();
    const points = this.power.get(rank) || [];
    points.push({time_s, power_w});
    while (points.length > 2 && points[1].time_s < time_s - kPowerWindow_s) points.shift();
    this.power.set(rank, points);
  }

  // Recent power of all GPUs together; null unless every GPU has reported.
  totalPower_w() {
    let total = 0;
    for (const {gpu_now: now} of this.ranks.values()) {
      if (!now || typeof now.power_w !== 'number') return null;
      total += now.power_w;
    }
    return this.ranks.size ? total : null;
  }

  async loadFrontier(signal) { this.frontier = await get(this.path('/frontier'), {signal}); }
  async loadPlan(signal) { this.plan = (await get(this.path('/timeline'), {signal})).plan; }
}

export const kPowerWindow = kPowerWindow_s;

// The list with `item` in its place by `key`, instead of one of the same key; at most `limit`, the newest.
const inserted = (list, item, key, limit) => {
  if (!list.length || item[key] > list[list.length - 1][key]) {
    list.push(item);
    if (list.length > limit) list.splice(0, list.length - limit);
    return list;
  }
  const at = list.findIndex((other) => other[key] >= item[key]);
  list.splice(at, list[at][key] === item[key] ? 1 : 0, item);
  return list;
};
