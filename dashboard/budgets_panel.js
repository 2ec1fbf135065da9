// Power budgets: limit, use, price of a watt, and each job's share.
import shared from './shared.js';
import {get} from './api.js';
import {panel, setClass, setText} from './parts.js';
import {counted} from './words.js';

const {element, units} = shared;

const kPeriod_ms = 3000;
// A cluster may have a budget for each node: budgets that bind are shown first.
const kShownBudgets = 12;
const kShownJobs = 50;

const ofLimit_pct = (watts, budget) => 100 * watts / budget.watts_now;

// Describes how jobs are staggered, or could be.
function staggerText(stagger) {
  if (!stagger) return '';
  const swing = `${units.power(stagger.staggered.swing_w)} instead of ${units.power(stagger.together.swing_w)}`;
  const kept = stagger.jobs.filter((job) => job.left_out === null).length;
  return stagger.applied
    ? `Staggered: ${kept} of ${counted(stagger.jobs.length, 'job')} kept at phases; planned swing ${swing}`
    : `Jobs are not staggered; with delays the planned swing would be ${swing}`;
}

class BudgetCard {
  constructor() {
    this.name = element('h3');
    this.value = element('p', {class: 'value'});
    this.used = element('span');
    this.bar = element('div', {class: 'budget-bar', role: 'img'}, [this.used]);
    this.details = Array.from({length: 6}, () => element('p', {class: 'detail'}));
    this.node = element('div', {class: 'card'}, [this.name, this.value, this.bar, ...this.details]);
  }

  show(budget) {
    const used_pct = ofLimit_pct(budget.planned_w, budget);
    const use = `${units.power(budget.planned_w)} planned, ${units.fixed(used_pct, 1)}\u00a0% of the limit`;
    setText(this.name, `Limit of ${budget.name}`);
    setText(this.value, units.power(budget.watts_now));
    setClass(this.value, budget.kept ? 'value' : 'value bad');
    this.used.style.width = `${Math.min(100, used_pct)}%`;
    setClass(this.used, budget.kept ? '' : 'over');
    this.bar.setAttribute('aria-label', use);
    const [plans, reported, price, held, stagger, unknown] = this.details;
    setText(plans, use + (budget.assumed_w > 0 ? `; ${units.power(budget.assumed_w)} of it assumed` : '') +
      (budget.kept ? '' : ': the limit cannot be kept by plans'));
    setText(reported, units.isNumber(budget.measured_w)
      ? `${units.power(budget.measured_w)} reported in the last iterations, by ${counted(budget.measured_gpus, 'GPU')}`
      : 'No power reported');
    setText(price, budget.gpus_per_kw > 0
      ? `Binds: one more kW would bring the training of ${units.significant(budget.gpus_per_kw, 2)} GPUs`
      : 'Does not bind: more watts would bring no training');
    setText(held, !budget.held ? 'Not held by agents' : `Agents of ${counted(budget.held.nodes, 'node')} hold ` +
      `${units.power(budget.held.watts)}` + (budget.held.silent_nodes
      ? `; ${budget.held.silent_nodes} silent, assumed at full power` : ''));
    setText(stagger, staggerText(budget.stagger));
    stagger.hidden = !budget.stagger;
    setText(unknown, `No job or agent names the ${budget.unknown_hosts.length > 1 ? 'hosts' : 'host'} ` +
      `${budget.unknown_hosts.join(', ')}: the budget limits nothing there`);
    unknown.hidden = budget.unknown_hosts.length === 0;
  }
}

export class BudgetsPanel {
  // `nameOf(job)`: what people call the job.
  constructor(nameOf) {
    this.nameOf = nameOf;
    this.cards = new Map();
    this.cardBox = element('div', {class: 'cards'});
    this.shares = element('ul', {class: 'shares'});
    this.caption = element('p', {class: 'caption'});
    this.panel = panel('Power budgets', {basis: 'planned', css: 'budgets'}, [this.cardBox, this.shares, this.caption]);
    this.node = this.panel.node;
    this.node.hidden = true;
    this.stopper = new AbortController();
    this.timer = setInterval(() => this.load().catch(() => {}), kPeriod_ms);
  }

  stop() {
    clearInterval(this.timer);
    this.stopper.abort();
  }

  async load() {
    const {budgets, jobs} = await get('/v1/budgets', {signal: this.stopper.signal});
    this.draw(budgets, jobs);
  }

  draw(budgets, jobs) {
    this.node.hidden = budgets.length === 0;
    const shown = budgets.slice()
      .sort((a, b) => a.kept - b.kept || b.gpus_per_kw - a.gpus_per_kw || b.watts_now - a.watts_now)
      .slice(0, kShownBudgets);
    const cards = new Map(shown.map(({name}) => [name, this.cards.get(name) || new BudgetCard()]));
    this.cards = cards;
    const nodes = [...cards.values()].map(({node}) => node);
    if (nodes.some((node, i) => this.cardBox.children[i] !== node) || this.cardBox.children.length !== nodes.length) {
      this.cardBox.replaceChildren(...nodes);
    }
    shown.forEach((budget) => cards.get(budget.name).show(budget));
    this.drawShares(jobs);
    const more = budgets.length - shown.length;
    setText(this.caption, (more > 0 ? `${counted(more, 'more budget')} with a lower price of power. ` : '') +
      'Watts: mean power of all GPUs by the jobs\u2019 plans. Shares: parts of the power of all jobs that follow plans.');
  }

  drawShares(jobs) {
    const total_w = jobs.reduce((sum, job) => sum + job.planned_w, 0);
    const largest = jobs.slice().sort((a, b) => b.planned_w - a.planned_w).slice(0, kShownJobs);
    while (this.shares.children.length > largest.length) this.shares.lastChild.remove();
    largest.forEach(({job, planned_w: watts}, i) => {
      if (!this.shares.children[i]) {
        this.shares.append(element('li', {}, [element('a'), element('span'), element('div', {class: 'budget-bar',
          'aria-hidden': 'true'}, [element('span')])]));
      }
      const [link, text, bar] = this.shares.children[i].children;
      link.setAttribute('href', `#/jobs/${encodeURIComponent(job)}`);
      setText(link, this.nameOf(job));
      setText(text, `${units.power(watts)}, ${units.fixed(100 * watts / total_w, 1)}\u00a0%`);
      bar.firstChild.style.width = `${100 * watts / total_w}%`;
    });
  }
}
