// Tables whose rows are objects.
const dataTable = (() => {
  const headCell = ([name, unit]) => {
    const cell = element('th', {scope: 'col', text: name});
    if (unit) cell.append(element('small', {text: unit}));
    return cell;
  };

  // `columns`: [{head: [name, unit], text: row => string} or {head, node: row => Node}], the first names the row.
  const table = (columns, rows, rowClass = () => '') => {
    const body = element('tbody');
    for (const row of rows) {
      const cells = columns.map((column, i) => {
        const cell = element(i === 0 ? 'th' : 'td', i === 0 ? {scope: 'row'} : {});
        if (column.css) cell.className = column.css;
        // What a narrow screen, on which every row is a block, shows before the cell.
        cell.dataset.head = column.head.filter(Boolean).join(', ');
        if (column.text) cell.textContent = column.text(row);
        else cell.append(...[column.node(row)].flat());
        return cell;
      });
      const css = rowClass(row);
      body.append(element('tr', css ? {class: css} : {}, cells));
    }
    return element('table', {}, [
      element('thead', {}, [element('tr', {}, columns.map(({head, css}) => {
        const cell = headCell(head);
        if (css === 'text') cell.className = css;
        return cell;
      }))]), body]);
  };

  return table;
})();
