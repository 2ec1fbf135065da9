// A table that updates only rows that have changed, so that focus, selection and scrolling survive
// updates, and a thousand rows are cheap.
import shared from './shared.js';
import {setClass, setText} from './parts.js';

const {element} = shared;

// The roles are repeated because narrow screens show rows as blocks, and browsers then drop the table's roles.
export class KeyedTable {
  // `columns`: [{head, unit, css, text: row => string, or fill: (cell, row), sort: row => number or string}], the first
  // names the row. `key`: row => string. `rowClass`: row => string.
  constructor(label, columns, key, {rowClass = () => '', empty = 'Nothing to show.', sortBy = null} = {}) {
    Object.assign(this, {columns, key, rowClass});
    this.rows = [];
    this.nodes = new Map();
    this.sorting = sortBy;  // {column, descending}
    this.body = element('tbody', {role: 'rowgroup'});
    this.heads = columns.map((column, i) => this.makeHead(column, i));
    this.table = element('table', {role: 'table', 'aria-label': label}, [
      element('thead', {role: 'rowgroup'}, [element('tr', {role: 'row'}, this.heads)]), this.body]);
    this.emptyNote = element('p', {class: 'empty', text: empty});
    this.node = element('div', {class: 'table-box', tabindex: '0', role: 'region', 'aria-label': label},
      [this.table, this.emptyNote]);
    this.showSorting();
  }

  makeHead({head, unit, css, sort}, i) {
    const cell = element('th', {scope: 'col', role: 'columnheader', class: css || ''});
    const name = [head, ...(unit ? [element('small', {text: unit})] : [])];
    if (!sort) {
      cell.append(...name);
      return cell;
    }
    const control = element('button', {type: 'button', class: 'sort'}, name);
    control.addEventListener('click', () => this.sortBy(i));
    cell.append(control);
    return cell;
  }

  sortBy(i) {
    const column = this.columns[i];
    const again = this.sorting && this.sorting.column === column.head;
    this.sorting = {column: column.head, descending: again ? !this.sorting.descending : false};
    this.showSorting();
    this.update(this.rows);
  }

  showSorting() {
    this.columns.forEach(({head, sort}, i) => {
      if (!sort) return;
      const active = this.sorting && this.sorting.column === head;
      this.heads[i].setAttribute('aria-sort', !active ? 'none' : this.sorting.descending ? 'descending' : 'ascending');
    });
  }

  sorted(rows) {
    const column = this.sorting && this.columns.find(({head}) => head === this.sorting.column);
    if (!column) return rows;
    const sign = this.sorting.descending ? -1 : 1;
    const missing = (value) => value === null || value === undefined;
    const compare = (a, b) => {
      if (missing(a) || missing(b)) return missing(a) - missing(b);
      return sign * (a < b ? -1 : a > b ? 1 : 0);
    };
    return rows.map((row) => [column.sort(row), row]).sort((a, b) => compare(a[0], b[0])).map(([, row]) => row);
  }

  update(rows) {
    this.rows = rows;
    const shown = this.sorted(rows);
    const wanted = shown.map((row) => this.nodeOf(row));
    const kept = new Set(wanted);
    for (const [key, node] of this.nodes) {
      if (kept.has(node)) continue;
      node.remove();
      this.nodes.delete(key);
    }
    // Moving a node that is in place already would take the focus from it.
    wanted.forEach((node, i) => {
      if (this.body.children[i] !== node) this.body.insertBefore(node, this.body.children[i] || null);
    });
    this.table.hidden = shown.length === 0;
    this.emptyNote.hidden = shown.length !== 0;
  }

  nodeOf(row) {
    const key = this.key(row);
    let node = this.nodes.get(key);
    if (!node) {
      node = element('tr', {role: 'row'}, this.columns.map(({head, unit, css}, i) => element(i === 0 ? 'th' : 'td', {
        role: i === 0 ? 'rowheader' : 'cell', class: css || '', 'data-label': unit ? `${head}, ${unit}` : head,
        ...(i === 0 ? {scope: 'row'} : {})})));
      this.nodes.set(key, node);
    }
    this.columns.forEach((column, i) => {
      const cell = node.children[i];
      if (column.fill) column.fill(cell, row);
      else setText(cell, column.text(row));
    });
    setClass(node, this.rowClass(row));
    return node;
  }
}
