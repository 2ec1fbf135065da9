// Uses the report as a person would, with events of the browser, and writes what it saw into #driver-result.
(async () => {
  const byId = (id) => document.getElementById(id);
  const frame = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  const timeline = () => document.querySelector('#timeline canvas');
  const readoutText = () => (byId('readout').hidden ? '' : byId('readout').textContent);

  // Share of pixels that have a colour: ops do; lanes, text and rules are grey.
  const colouredShare = (canvas) => {
    const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let coloured = 0;
    for (let i = 0; i < data.length; i += 4) {
      const [red, green, blue, alpha] = data.subarray(i, i + 4);
      if (alpha > 0 && Math.max(red, green, blue) - Math.min(red, green, blue) > 60) ++coloured;
    }
    return coloured / (data.length / 4);
  };

  const at = (node, x, y) => {
    const box = node.getBoundingClientRect();
    return {bubbles: true, cancelable: true, view: window, clientX: box.left + x, clientY: box.top + y};
  };
  const point = async (node, x, y) => {
    node.dispatchEvent(new MouseEvent('mousemove', at(node, x, y)));
    await frame();
    return readoutText();
  };
  const wheel = async (node, x, y, options) => {
    const event = new WheelEvent('wheel', {...at(node, x, y), deltaY: -600, ...options});
    node.dispatchEvent(event);
    await frame();
    return event.defaultPrevented;
  };
  const key = async (node, name) => {
    node.dispatchEvent(new KeyboardEvent('keydown', {key: name, bubbles: true, cancelable: true}));
    await frame();
    return readoutText();
  };
  const drag = async (node, from, to, y) => {
    node.dispatchEvent(new MouseEvent('mousedown', at(node, from, y)));
    window.dispatchEvent(new MouseEvent('mousemove', at(node, to, y)));
    window.dispatchEvent(new MouseEvent('mouseup', at(node, to, y)));
    await frame();
  };
  const zoomState = () => ({zoom: Number(timeline().dataset.zoom), ops: Number(timeline().dataset.visibleOps)});

  const result = {};
  const useTimeline = async () => {
    const canvas = timeline();
    if (!canvas) return;
    result.timelineColoured = colouredShare(canvas);
    result.overviewColoured = colouredShare(document.querySelector('#overview canvas'));
    result.atFirst = zoomState();
    const firstLaneY = 60;
    result.opReadout = await point(canvas, 60, firstLaneY);
    result.idleReadout = await point(canvas, canvas.clientWidth * 0.15, firstLaneY);
    document.activeElement.blur();
    result.plainWheelTaken = await wheel(canvas, 300, firstLaneY, {});
    result.afterPlainWheel = zoomState();
    result.ctrlWheelTaken = await wheel(canvas, 300, firstLaneY, {ctrlKey: true});
    result.afterCtrlWheel = zoomState();
    const before = await point(canvas, 300, firstLaneY);
    await drag(canvas, 300, 100, firstLaneY);
    result.dragMoved = before !== await point(canvas, 300, firstLaneY);
    await key(canvas, '0');
    result.afterReset = zoomState();
    await key(canvas, 'Escape');
    result.keyReadout = await key(canvas, 'ArrowRight');
    result.nextKeyReadout = await key(canvas, 'ArrowRight');
    await key(canvas, 'Escape');
    canvas.closest('section').querySelector('[data-zoom=in]').click();
    await frame();
    result.afterButton = zoomState();
  };
  const useFrontier = async () => {
    const svg = document.querySelector('#frontier svg');
    result.marks = svg.querySelectorAll('.point').length;
    result.labels = [...document.querySelectorAll('.plot-key li')].map((item) => item.textContent);
    result.numbers = [...svg.querySelectorAll('.point-label')].map((label) => label.textContent);
    result.curve = (svg.querySelector('.curve') || {getTotalLength: () => 0}).getTotalLength();
    result.firstPoint = await key(svg, 'ArrowRight');
    result.lastPoint = await key(svg, 'End');
    await key(svg, '+');
    result.frontierZoom = byId('frontier').dataset.zoom;
    await key(svg, '0');
    const box = svg.getBoundingClientRect();
    result.curveReadout = await point(svg, box.width * 0.5, box.height * 0.12);
  };

  try {
    await useTimeline();
    await useFrontier();
    result.title = byId('title').textContent;
    result.rows = Object.fromEntries(['policies', 'plans', 'ranks'].map((id) =>
      [id, byId(id).querySelectorAll('tbody tr').length]));
    result.text = document.body.innerText;
    result.wholeOptions = [...document.querySelectorAll('#warnings .option')].map((option) =>
      `${option.textContent} ${getComputedStyle(option).whiteSpace}`);
    result.emptyPanels = [...document.querySelectorAll('.panel:not([hidden])')].filter((panel) =>
      !panel.querySelector('svg, canvas, table, dl')).map((panel) => panel.id);
    result.fetched = performance.getEntriesByType('resource').length;
    result.overflowPx = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    result.tablesOverflowPx = Math.max(0, ...[...document.querySelectorAll('.table-box')].map((box) =>
      box.scrollWidth - box.clientWidth));
    result.background = getComputedStyle(document.body).backgroundColor;
    result.injected = document.querySelectorAll('#injected').length;
    result.ready = document.documentElement.dataset.ready || '';
    result.counts = {...document.documentElement.dataset};
    result.error = document.documentElement.dataset.error || '';
  } catch (error) {
    result.error = `driver: ${error.stack}`;
  }
  const script = document.createElement('script');
  script.type = 'application/json';
  script.id = 'driver-result';
  script.textContent = JSON.stringify(result).replaceAll('<', '\\u003c');
  document.body.append(script);
})();
