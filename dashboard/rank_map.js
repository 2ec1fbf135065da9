// All ranks at a glance: a row for each pipeline (dp, tp), a cell for each of its ranks.
import shared from './shared.js';
import {temperature} from './words.js';

const {element, interaction, palette, readout, units} = shared;

const kLargestCell_px = 22;
const kGutter_px = 64;
const kColours = ['accent', 'bad', 'lane', 'muted', 'ink'];

export class RankMap {
  // `onChoose(rank)` when a cell is chosen.
  constructor(onChoose) {
    this.onChoose = onChoose;
    this.rows = [];
    this.cells = [];  // {row, column, line}
    this.selected = -1;
    this.canvas = element('canvas', {tabindex: '0', role: 'application', 'aria-roledescription': 'map'});
    this.legend = element('p', {class: 'caption map-legend'}, [element('span', {class: 'cell fine'}), 'as planned ',
      element('span', {class: 'cell attention'}), 'needs attention ',
      element('span', {class: 'cell silent'}), 'silent ',
      element('span', {class: 'cell unknown'}), 'no data']);
    this.node = element('div', {class: 'plot rank-map'}, [this.canvas, this.legend]);
    this.canvas.addEventListener('mousemove', (event) => this.onMove(event));
    this.canvas.addEventListener('mouseleave', () => this.clear());
    this.canvas.addEventListener('blur', () => this.clear());
    this.canvas.addEventListener('click', () => this.choose());
    this.canvas.addEventListener('keydown', (event) => this.onKey(event));
    this.redraw = interaction.perFrame(() => this.draw());
    new ResizeObserver(this.redraw).observe(this.node);
  }

  update(rows, parallel) {
    this.rows = rows;
    this.columns = Math.max(1, parallel.pp);
    const lines = new Map();
    this.cells = rows.map((row) => {
      const name = `${row.dp_rank ?? 0}/${row.tp_rank ?? 0}`;
      const label = `dp ${row.dp_rank ?? 0}${parallel.tp > 1 ? `.${row.tp_rank}` : ''}`;
      if (!lines.has(name)) lines.set(name, {index: lines.size, label});
      return {row, column: row.pp_rank ?? row.rank % this.columns, line: lines.get(name).index};
    });
    this.lines = [...lines.values()];
    this.canvas.setAttribute('aria-label', `Map of ${rows.length} ranks, one row for each pipeline. ` +
      'Arrow keys move to the next rank, ' +
      'Enter shows the rank in the table below, which has the same data.');
    this.redraw();
  }

  // Many pipelines stand in several blocks next to each other.
  layout() {
    const width = this.node.clientWidth;
    const fitting = (cell) => Math.max(1, Math.floor(width / (kGutter_px + this.columns * cell + 12)));
    const height = (cell) => Math.ceil(this.lines.length / fitting(cell)) * cell;
    let cell = kLargestCell_px;
    while (cell > 6 && (height(cell) > 300 || kGutter_px + this.columns * cell > width)) --cell;
    this.cell = cell;
    this.blocks = fitting(cell);
    this.perBlock = Math.ceil(this.lines.length / this.blocks);
    this.blockWidth = kGutter_px + this.columns * cell + 12;
    this.height = this.perBlock * cell + 4;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.height = `${this.height}px`;
    this.context = this.canvas.getContext('2d');
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  place({column, line}) {
    return {x: Math.floor(line / this.perBlock) * this.blockWidth + kGutter_px + column * this.cell,
      y: (line % this.perBlock) * this.cell};
  }

  draw() {
    if (!this.cells.length || !this.node.clientWidth) return;
    this.layout();
    const {context, cell} = this;
    const css = Object.fromEntries(kColours.map((name) => [name, palette.css(`--${name}`)]));
    context.clearRect(0, 0, this.node.clientWidth, this.height);
    context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
    context.textBaseline = 'middle';
    const every = Math.ceil(13 / cell);
    this.lines.forEach(({label}, line) => {
      if (line % this.perBlock % every) return;
      const {x, y} = this.place({column: 0, line});
      context.fillStyle = css.muted;
      context.fillText(label, x - kGutter_px + 2, y + cell / 2);
    });
    for (const item of this.cells) this.drawCell(item, css);
    if (this.selected >= 0) {
      const {x, y} = this.place(this.cells[this.selected]);
      context.strokeStyle = css.ink;
      context.lineWidth = 2;
      context.strokeRect(x - 1, y - 1, cell, cell);
    }
  }

  drawCell(item, css) {
    const {context, cell} = this;
    const {x, y} = this.place(item);
    const {problems, age_s} = item.row;
    const size = cell - 2;
    if (problems.includes('silent')) {
      context.strokeStyle = css.bad;
      context.lineWidth = 1.5;
      context.strokeRect(x + 0.75, y + 0.75, size - 1.5, size - 1.5);
      context.beginPath();
      context.moveTo(x + 1, y + size - 1);
      context.lineTo(x + size - 1, y + 1);
      context.stroke();
      return;
    }
    context.fillStyle = age_s === null ? css.lane : problems.length ? css.bad : css.accent;
    // Only ranks that need attention fill their cell, so that they stand out without colour, too.
    const inset = problems.length || age_s === null ? 0 : Math.max(1, size * 0.2);
    context.fillRect(x + inset, y + inset, size - 2 * inset, size - 2 * inset);
  }

  onMove(event) {
    const block = Math.floor(event.offsetX / this.blockWidth);
    const column = Math.floor((event.offsetX - block * this.blockWidth - kGutter_px) / this.cell);
    const line = block * this.perBlock + Math.floor(event.offsetY / this.cell);
    this.select(this.cells.findIndex((cell) => cell.column === column && cell.line === line));
  }

  select(index) {
    if (index === this.selected && index >= 0) return;
    this.selected = index;
    this.draw();
    if (index < 0) {
      readout.hide();
      return;
    }
    const {row} = this.cells[index];
    const {x, y} = this.place(this.cells[index]);
    const box = this.canvas.getBoundingClientRect();
    readout.show(box.left + x + this.cell, box.top + y, {title: `Rank ${row.rank}`, rows: [
      ['Host', row.host || units.fixed(null)], ['Attention', row.problems.join(', ') || 'no'],
      ['Factor', units.isNumber(row.factor) ? units.fixed(row.factor, 3) : units.fixed(null)],
      ['Power', units.power(row.now.power_w)],
      ['Temperature', temperature(row.now.temperature_c)]]});
  }

  clear() { this.select(-1); }

  choose() {
    if (this.selected >= 0) this.onChoose(this.cells[this.selected].row.rank);
  }

  step(columns, lines) {
    const from = this.cells[Math.max(0, this.selected)];
    if (this.selected < 0) return void this.select(0);
    const index = this.cells.findIndex(({column, line}) =>
      column === from.column + columns && line === from.line + lines);
    if (index >= 0) this.select(index);
  }

  onKey(event) {
    interaction.onKey(event, {
      ArrowRight: () => this.step(1, 0), ArrowLeft: () => this.step(-1, 0), ArrowDown: () => this.step(0, 1),
      ArrowUp: () => this.step(0, -1), Enter: () => this.choose(), Escape: () => this.clear(),
    });
  }
}
