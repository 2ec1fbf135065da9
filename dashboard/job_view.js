// One job.
import shared from './shared.js';
import {Alerts, Progress} from './alerts.js';
import {DecisionsPanel} from './decisions_panel.js';
import {energyPanel, predictionPanel, timePanel} from './iteration_panels.js';
import {Figures} from './figures.js';
import {FrontierPanel} from './frontier_panel.js';
import {GpuPanel} from './gpu_panel.js';
import {JobStore} from './job_store.js';
import {LiveStream} from './live.js';
import {RanksPanel} from './ranks_panel.js';
import {TimelinePanel} from './timeline_panel.js';
import {announce, message, setClass, setText} from './parts.js';
import {rankRows} from './rank_state.js';
import {counted, dateTime, duration, isOver, parallelText, plansItself, shortName, stateShown,
  workText} from './words.js';

const {element} = shared;

// Redraws often enough to look live, and seldom enough that a thousand ranks cost little.
const kRedraw_ms = 400;
// Silence of a rank brings no event.
const kTick_ms = 2000;
// No event brings another frontier of the same plan, nor the reports of ranks.
const kRefresh_ms = 5000;
const kRefreshPerRank_ms = 10;

export class JobView {
  constructor(container, job, {onState, onRefused}) {
    this.container = container;
    this.store = new JobStore(job);
    this.connection = {state: 'connecting'};
    this.refreshed_ms = Date.now();
    this.timers = [setInterval(() => this.later(), kTick_ms), setInterval(() => this.refresh(), kRefresh_ms)];
    this.stopper = new AbortController();
    this.stream = new LiveStream(this.store.path('/events'), {
      catchUp: (signal) => this.catchUp(signal), onRefused,
      onEvent: (name, event) => this.take(name, event),
      onState: (state) => {
        this.connection = state;
        onState(state);
        this.later();
      },
    });
    container.replaceChildren(message('Loading', 'Loading the job from the server …'));
    document.title = `${job} – Lowgear`;
    this.stream.run();
  }

  stop() {
    this.timers.forEach(clearInterval);
    clearTimeout(this.pending);
    this.stopper.abort();
    this.stream.stop();
  }

  async catchUp(signal) {
    await this.store.catchUp(signal);
    await this.loadPlan(signal);
    if (!this.panels) this.build();
    this.draw();
  }

  async loadPlan(signal) {
    this.planVersion = this.store.summary.plan_version;
    await this.store.loadFrontier(signal);
    await this.store.loadPlan(signal);
  }

  refresh() {
    const {summary} = this.store;
    if (!summary || this.connection.state !== 'live' || isOver(summary) || document.hidden) return;
    // Large jobs are asked for less often.
    if (Date.now() - this.refreshed_ms < kRefreshPerRank_ms * summary.ranks) return;
    this.refreshed_ms = Date.now();
    this.quietly(async () => {
      await this.store.loadFrontier(this.stopper.signal);
      await this.store.loadRanks(this.stopper.signal);
    });
  }

  // A failed request is repeated at the next change, and the stream reports that the server is away.
  async quietly(load) {
    try {
      await load();
      this.later();
    } catch (error) {
      if (!this.stopper.signal.aborted) this.planVersion = null;
    }
  }

  take(name, event) {
    const {store} = this;
    if (name === 'iteration') store.takeIteration(event);
    if (name === 'gpu') store.takeGpu(event);
    if (name === 'decision' && store.takeDecision(event)) announce(`Decision: ${event.reason}`);
    if (name === 'job') {
      const fresh = !store.summary || event.registered !== store.summary.registered ||
        isOver(event) !== isOver(store.summary);
      store.takeSummary(event);
      if (this.panels && event.plan_version !== this.planVersion) {
        this.planVersion = event.plan_version;
        this.quietly(() => this.loadPlan(this.stopper.signal));
      }
      if (this.panels && fresh) this.quietly(() => store.loadRanks(this.stopper.signal));
    }
    this.later();
  }

  later() {
    if (this.pending || !this.panels) return;
    this.pending = setTimeout(() => {
      this.pending = 0;
      requestAnimationFrame(() => this.draw());
    }, kRedraw_ms);
  }

  build() {
    this.title = element('h1');
    this.state = element('span');
    this.simulated = element('span', {class: 'chip simulated', text: 'simulated',
      title: 'The GPUs of this job are simulated'});
    this.facts = element('ul', {class: 'facts', 'aria-label': 'About this job'});
    const head = element('div', {class: 'job-head'}, [
      element('a', {href: '#/', class: 'back', text: '‹ Jobs'}),
      element('div', {class: 'job-title'}, [this.title, this.state, this.simulated]), this.facts]);
    this.progress = new Progress();
    this.alerts = new Alerts();
    this.figures = new Figures();
    this.ranksPanel = new RanksPanel();
    this.gpuPanel = new GpuPanel();
    const [frontier, timeline] = [new FrontierPanel(), new TimelinePanel()];
    const time = plansItself(this.store.summary) ? predictionPanel() : timePanel();
    const decisions = new DecisionsPanel();
    this.panels = [time, energyPanel(this.store.summary), frontier, decisions, this.gpuPanel, timeline, this.ranksPanel];
    if (plansItself(this.store.summary)) {
      for (const {node} of [frontier, timeline]) node.hidden = true;
      decisions.node.classList.add('wide');
    }
    this.container.replaceChildren(head, this.progress.node, this.alerts.node, this.figures.node,
      element('div', {class: 'panels'}, this.panels.map(({node}) => node)));
  }

  draw() {
    const {store} = this;
    if (!this.panels || this.stopper.signal.aborted) return;
    this.drawHead(store.summary);
    const rows = rankRows(store);
    this.progress.update(store);
    this.alerts.update(store, rows, this.connection);
    this.figures.update(store);
    for (const item of this.panels) item.update(store, rows);
    setClass(this.container, this.connection.state === 'away' ? 'stale' : '');
    Object.assign(document.documentElement.dataset, {job: store.job, iteration: String(store.summary.iteration ?? ''),
      decisions: String(store.decisions.length), ranks: String(rows.length)});
  }

  drawHead(job) {
    const name = job.name || job.job;
    if (document.title !== `${name} – Lowgear`) document.title = `${name} – Lowgear`;
    setText(this.title, name);
    const [state, css, title] = stateShown(job);
    setClass(this.state, css);
    setText(this.state, state);
    this.state.title = title;
    this.simulated.hidden = !job.simulated;
    const facts = [['Model', shortName(job.model)], ...(job.work ? [['Work', workText(job.work)]] : []), ['GPU', job.gpu], ['Parallel', parallelText(job.parallel)],
      ['Schedule', `${job.schedule}, ${counted(job.microbatches, 'microbatch', 'microbatches')}`],
      ['Ranks', `${job.registered} of ${job.ranks}`], ['Run', shortName(job.run)], ['Started', dateTime(job.created_s)],
      ...(job.finished_s ? [['Duration', duration(job.finished_s - job.created_s)]] : [])];
    const text = JSON.stringify(facts);
    if (text === this.factsText) return;
    this.factsText = text;
    this.facts.replaceChildren(...facts.map(([key, value]) => element('li', {},
      [`${key} `, element('b', {text: value})])));
  }

  onTheme() {
    for (const item of this.panels || []) item.onTheme();
  }
}
