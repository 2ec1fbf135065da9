// Builds the page of an estimate, or of a comparison of runs.
(() => {
  const report = JSON.parse(document.getElementById('report-data').textContent);
  const byId = (id) => document.getElementById(id);

  // Texts of commands have a hyphen before negative numbers.
  const withMinus = (text) => text.replace(/(^|[\s(])-(?=\d)/g, '$1\u2212');

  const drawHead = () => {
    byId('title').textContent = report.title;
    document.title = `${report.title} – Lowgear`;
    byId('facts').replaceChildren(...report.facts.map(([name, text]) =>
      element('li', {}, [`${name} `, element('b', {text})])));
    byId('headline').hidden = !report.headline;
    byId('headline').replaceChildren(element('strong', {text: withMinus(report.headline || '')}));
    byId('cards').replaceChildren(...report.cards.map((card) => element('div', {class: 'card'}, [
      element('h3', {text: card.name}), element('p', {class: 'value', text: withMinus(card.value)}),
      element('p', {class: 'detail'}, withWholeOptions(withMinus(card.detail)))])));
    byId('warnings').replaceChildren(...report.warnings.map((text) => element('li', {}, withWholeOptions(text))));
    byId('warnings').hidden = report.warnings.length === 0;
  };

  const plotModel = ({curve, curve_name, marks, mark_names, title}) => {
    const baseline = marks.find((mark) => mark.type === 'baseline') || null;
    return {keyed: true, curve, separateBound: [], baseline, baselineName: mark_names.baseline,
      points: marks.map((mark) => ({...mark, isTarget: mark.chosen && baseline})),
      boundName: curve_name, boundBasis: 'estimated', regionLabel: '',
      summary: `${title}: ${marks.length} points. Arrow keys move between them, plus and minus zoom, 0 shows all. ` +
        'The tables below have the same numbers.'};
  };

  const plotLegend = ({curve, curve_name, marks, mark_names}) => {
    const has = (type, chosen) => marks.some((mark) => mark.type === type && mark.chosen === chosen);
    const items = [
      ...(curve.length ? [[frontierPlot.lineSample('curve'), curve_name]] : []),
      ...(has('policy', false) ? [[frontierPlot.pointSample('policy', 'policy'), mark_names.candidate]] : []),
      ...(has('plan', false) ? [[frontierPlot.pointSample('plan', 'plan'), mark_names.plan]] : []),
      ...(has('plan', true) ? [[frontierPlot.pointSample('plan', 'plan chosen'), mark_names.chosen]] : []),
      ...(has('baseline', false) ? [[frontierPlot.pointSample('baseline', 'baseline'), mark_names.baseline]] : []),
    ];
    return items.map(([node, text]) => element('li', {}, [node, text]));
  };

  const drawPlot = () => {
    if (!report.plot) return 0;
    byId('plot-panel').hidden = false;
    byId('plot-title').textContent = report.plot.title;
    byId('plot-caption').textContent = report.plot.caption;
    byId('plot-legend').replaceChildren(...plotLegend(report.plot));
    const plot = new frontierPlot.Plot(byId('plot'), plotModel(report.plot));
    interaction.attachButtons(byId('plot-panel'), (factor) => plot.zoomBy(factor));
    interaction.onResize(byId('plot'), () => plot.layout());
    return plot.points.length;
  };

  const drawValleys = () => {
    if (!report.valleys.length) return 0;
    byId('valley-panel').hidden = false;
    byId('valley-basis').textContent = report.valley_basis;
    byId('valley-legend').replaceChildren(...valleyPlot.legend(report.valleys));
    byId('valley-caption').textContent = valleyPlot.caption(report.valleys);
    return valleyPlot.draw(byId('valleys'), report.valleys);
  };

  const drawTables = () => report.tables.forEach(({title, basis, columns, rows, chosen}) => {
    // A word first, or three words in a row.
    const isText = (i) => i > 0 && rows.every((row) => /^[a-z]|([a-z]+ ){2}[a-z]/i.test(row[i]));
    // A line feed begins a note, as does a standard error: numbers next to theirs would not fit.
    const nodes = (cell) => element('span', {}, withMinus(cell).split(/\n| (?=\u00b1 [\d.]+$)/)
      .map((text, line) => (line ? element('span', {class: 'note', text}) : text)));
    const css = (i) => (i === 0 && rows.some(([first]) => first.includes('\n')) ? 'named' : isText(i) ? 'text' : '');
    const table = dataTable(columns.map((name, i) => ({head: [name], node: (row) => nodes(row.cells[i]), css: css(i)})),
      rows.map((cells, index) => ({cells, index})), (row) => (row.index === chosen ? 'chosen' : ''));
    byId('numbers').append(element('section', {class: 'panel', 'aria-label': title}, [
      element('h2', {}, [`${title} `, element('span', {class: 'basis', text: basis})]),
      element('div', {class: 'table-box', tabindex: '0', role: 'region', 'aria-label': title}, [table])]));
  });

  const drawReading = () => {
    byId('reading').replaceChildren(...report.reading.flatMap(([name, text]) =>
      [element('dt', {text: name}), element('dd', {text})]));
    byId('footer').replaceChildren(
      element('p', {text: `Lowgear ${report.lowgear_version}`}),
      ...(report.command ? [element('p', {}, ['Created by ', element('code', {text: report.command})])] : []),
      element('p', {text: 'Plots use D3 (© 2010–2016 Michael Bostock, BSD-3-Clause; its licence is in the source of ' +
        'this page). The page holds all its data and loads nothing.'}));
  };

  drawHead();
  const points = drawPlot();
  const valleys = drawValleys();
  report.intervals.forEach(({groups}) => groups.forEach(({rows}) => rows.forEach((row) => {
    row.text = withMinus(row.text);
  })));
  report.intervals.forEach((intervals) => intervalPlot.panel(byId('bars'), intervals));
  report.curves.forEach((curves) => learningCurves.panel(byId('bars'), curves));
  report.series.forEach((group) => seriesPlots.panel(byId('bars'), group));
  if (report.pipelines) pipelinePictures.panel(byId('bars'), report.pipelines);
  report.bars.forEach((bars) => stackedBars.panel(byId('bars'), bars));
  drawTables();
  drawReading();
  Object.assign(document.documentElement.dataset, {ready: '1', points, valleys, bars: report.bars.length,
    intervals: report.intervals.length, curves: report.curves.length, tables: report.tables.length,
    series: d3.sum(report.series, ({plots}) => plots.length),
    pipelines: report.pipelines ? report.pipelines.pictures.length : 0});
})();
