// Decisions of the server and the training program with their reasons, newest first.
import shared from './shared.js';
import {button, panel, setText} from './parts.js';
import {clockTime, counted, dateTime} from './words.js';

const {element, interaction} = shared;

const kFirst = 100;

// The training program decides by techniques, the server by kinds.
const kindOf = ({kind, technique}) => technique || kind;
const words = (name) => name.replaceAll('_', ' ');
const kindText = (decision) => (decision.technique
  ? `${words(decision.technique)}: ${words(decision.change)}` : words(decision.kind));

const reason = ({technique, from_iteration: step, configuration, reason: text}) => (technique
  ? [element('span', {class: 'configuration', text: `from iteration ${step}: ${configuration}`}), ` ${text}`]
  : [text]);

const searched = ({configuration = '', reason: text}) => `${configuration} ${text}`.toLowerCase();

// A plan repeats the reason of the decision that led to it, and a report may come twice: of two neighbours that say the
// same at the same time the longer one is shown, with the kind of the one that led to it.
const kTogether_s = 2;
const isPartOf = (one, other) => other && !one.technique && !other.technique &&
  Math.abs(one.time_s - other.time_s) <= kTogether_s && one.reason.length > 0 &&
  other.reason.includes(one.reason) && (one.reason !== other.reason || one.id < other.id);
const withoutRepeats = (decisions) => decisions.flatMap((decision, i) => {
  const neighbours = [decisions[i - 1], decisions[i + 1]].filter(Boolean);
  if (neighbours.some((other) => isPartOf(decision, other))) return [];
  const cause = neighbours.find((other) => isPartOf(other, decision));
  return [cause ? {...decision, kind: cause.kind} : decision];
});

// Drift is reported as it changes: of neighbours the newest is shown, with their number.
const subjectOf = ({kind, technique, reason: text}) => (kind === 'drift' && !technique ? text.split(' take')[0] : '');
const withDriftFolded = (decisions) => {
  const kept = [];
  for (const decision of decisions) {
    const last = kept[kept.length - 1];
    const subject = subjectOf(decision);
    if (last && subject && subjectOf(last) === subject) {
      const {time_s, count} = last.since || {time_s: last.time_s, count: 1};
      kept[kept.length - 1] = {...decision, since: {time_s, count: count + 1}};
    } else {
      kept.push(decision);
    }
  }
  return kept;
};
const sinceText = ({since}) => (since ? ` (${since.count} reports since ${clockTime(since.time_s)})` : '');

const line = (decision, planName) => {
  const today = new Date().toDateString() === new Date(1000 * decision.time_s).toDateString();
  const {plan_version: plan} = decision;
  return element('li', {'data-id': String(decision.id)}, [
    element('time', {datetime: new Date(1000 * decision.time_s).toISOString(), title: dateTime(decision.time_s),
      text: today ? clockTime(decision.time_s) : dateTime(decision.time_s)}),
    element('span', {class: 'kind', text: kindText(decision)}),
    element('span', {class: 'version', ...(Number.isInteger(plan) && plan > 0
      ? {text: planName(plan), title: `version ${plan} in the API`} : {})}),
    element('span', {class: 'reason'}, [...reason(decision), sinceText(decision)])]);
};

export class DecisionsPanel {
  constructor() {
    this.limit = kFirst;
    this.decisions = [];
    this.kinds = [];
    this.kind = element('select', {'aria-label': 'Kind of decision'},
      [element('option', {value: '', text: 'all kinds'})]);
    this.search = element('input', {type: 'search', placeholder: 'Reason …', 'aria-label': 'Filter decisions'});
    this.list = element('ol', {class: 'decisions', tabindex: '0', 'aria-label': 'Decisions, newest first'});
    this.more = button('Show more', () => { this.limit += kFirst; this.draw(); });
    this.count = element('p', {class: 'caption'});
    this.kind.addEventListener('change', () => this.draw());
    this.search.addEventListener('input', interaction.perFrame(() => this.draw()));
    this.node = panel('Decisions', {tools: [this.kind, this.search], css: 'decisions-panel'},
      [this.list, element('div', {class: 'list-foot'}, [this.count, this.more])]).node;
  }

  update(store) {
    const newest = store.decisions.length ? store.decisions[store.decisions.length - 1].id : 0;
    if (newest === this.newest && store.decisions.length === this.length) return;
    this.newest = newest;
    this.length = store.decisions.length;
    this.dropped = store.droppedDecisions;
    this.planName = (version) => store.planName(version);
    // The training program's come later than they were made.
    const byTime = [...store.decisions].sort((one, other) => one.time_s - other.time_s || one.id - other.id);
    this.decisions = withDriftFolded(withoutRepeats(byTime)).reverse();
    const kinds = [...new Set(this.decisions.map(kindOf))].sort();
    for (const kind of kinds.filter((name) => !this.kinds.includes(name))) {
      this.kind.append(element('option', {value: kind, text: words(kind)}));
    }
    this.kinds = kinds;
    this.draw();
  }

  draw() {
    const wanted = this.search.value.trim().toLowerCase();
    const shown = this.decisions.filter((decision) => (!this.kind.value || kindOf(decision) === this.kind.value) &&
      searched(decision).includes(wanted));
    const nodes = shown.slice(0, this.limit).map((decision) => line(decision, this.planName));
    this.list.replaceChildren(...(nodes.length ? nodes : [element('li', {class: 'empty',
      text: this.decisions.length ? 'No decision matches.' : 'There are no decisions yet.'})]));
    this.more.hidden = shown.length <= this.limit;
    const dropped = this.dropped ? `; ${counted(this.dropped, 'older one')} no longer kept` : '';
    setText(this.count, `${counted(shown.length, 'decision')}${dropped}`);
  }

  onTheme() {}
}
