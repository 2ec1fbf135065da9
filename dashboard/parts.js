// Building blocks of the views.
import shared from './shared.js';

const {element} = shared;

let serial = 0;
export const uniqueId = (name) => `${name}-${++serial}`;

export const setText = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};

export const setClass = (node, text) => {
  if (node.className !== text) node.className = text;
};

export const button = (text, onClick, options = {}) => {
  const node = element('button', {type: 'button', text, ...options});
  node.addEventListener('click', onClick);
  return node;
};

// A titled section. `basis`: the word for where its figures come from, shown next to the title.
export const panel = (title, {basis = '', tools = [], css = ''} = {}, children = []) => {
  const id = uniqueId('title');
  const heading = element('h2', {id, text: title});
  const basisNode = element('span', {class: 'basis', text: basis});
  basisNode.hidden = !basis;
  heading.append(' ', basisNode);
  const head = element('div', {class: 'panel-head'}, [heading,
    ...(tools.length ? [element('div', {class: 'tools'}, tools)] : [])]);
  const node = element('section', {class: `panel ${css}`, 'aria-labelledby': id}, [head, ...children]);
  const setBasis = (text) => {
    setText(basisNode, text);
    basisNode.hidden = !text;
  };
  return {node, heading, setBasis};
};

export const message = (title, text, actions = []) => element('div', {class: 'message'}, [
  element('p', {class: 'message-title', text: title}), element('p', {text}), ...actions]);

export const zoomTools = (name, zoomBy) => element('div', {class: 'tools', role: 'group',
  'aria-label': `Zoom of ${name}`}, [
  button('+', () => zoomBy(2), {'aria-label': 'Zoom in'}), button('\u2212', () => zoomBy(0.5),
    {'aria-label': 'Zoom out'}),
  button('All', () => zoomBy(0))]);

// A table below a plot, created only when a user opens it.
export class TableBehind {
  constructor(title, makeTable) {
    this.makeTable = makeTable;
    this.box = element('div', {class: 'table-box tall', tabindex: '0', role: 'region', 'aria-label': title});
    this.node = element('details', {class: 'behind'}, [element('summary', {text: title}), this.box]);
    this.node.addEventListener('toggle', () => this.update());
  }

  update() {
    if (this.node.open) this.box.replaceChildren(this.makeTable());
  }
}

// Announces texts to screen readers, one after the other.
export const announce = (text) => {
  const kKept = 5;
  const log = document.getElementById('announcer');
  log.append(element('p', {text}));
  while (log.children.length > kKept) log.firstChild.remove();
};
