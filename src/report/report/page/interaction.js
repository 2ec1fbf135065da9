// Zooming that leaves the page scrollable: the wheel zooms with Ctrl or once the plot has the focus, touch needs two
// fingers, buttons and keys always work.
const interaction = (() => {
  const attachZoom = (node, zoom) => {
    const selection = d3.select(node).call(zoom);
    const wrap = (type, isWanted) => {
      const original = selection.on(type);
      selection.on(type, function (...args) { if (isWanted(d3.event)) original.apply(this, args); });
    };
    wrap('wheel.zoom', (event) => event.ctrlKey || event.metaKey || document.activeElement === node);
    wrap('touchstart.zoom', (event) => event.touches.length > 1);
    selection.on('dblclick.zoom', null);
    node.addEventListener('mousedown', () => node.focus({preventScroll: true}));
  };

  // `view` is {zoom, x: [from, to], y: [from, to]}: the behaviour and the pixels that the plot spans.

  // Zooms by `factor` about the middle of the plot, or shows all for factor 0.
  const zoomBy = ({zoom, x, y}, factor) => {
    const [low, high] = zoom.scaleExtent();
    const before = zoom.scale();
    const after = factor ? Math.max(low, Math.min(high, before * factor)) : low;
    const move = ([from, to], shift) => (from + to) / 2 - ((from + to) / 2 - shift) * after / before;
    const [shiftX, shiftY] = zoom.translate();
    zoom.scale(after).translate(factor ? [move(x, shiftX), move(y, shiftY)] : [0, 0]);
  };

  const attachButtons = (panel, zoomWith) => {
    const factors = {in: 2, out: 0.5, all: 0};
    for (const button of panel.querySelectorAll('button[data-zoom]')) {
      button.addEventListener('click', () => zoomWith(factors[button.dataset.zoom]));
    }
  };

  // Runs the action of the pressed key, unless Ctrl or Meta is held. All plots zoom by the same keys with `zoomBy`.
  const onKey = (event, actions, zoomBy = null) => {
    const zooming = zoomBy
      ? {'+': () => zoomBy(2), '=': () => zoomBy(2), '-': () => zoomBy(0.5), 0: () => zoomBy(0)} : {};
    const action = {...zooming, ...actions}[event.key];
    if (!action || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    action();
  };

  // Keeps the visible range within the data.
  const clampTranslate = ({zoom, x, y}) => {
    const k = zoom.scale();
    const clamp = ([from, to], shift) => Math.min(from * (1 - k), Math.max(to * (1 - k), shift));
    const [shiftX, shiftY] = zoom.translate();
    zoom.translate([clamp(x, shiftX), clamp(y, shiftY)]);
  };

  // Calls `redraw` at most once per frame.
  const perFrame = (redraw) => {
    let pending = false;
    return () => {
      if (pending) return;
      pending = true;
      requestAnimationFrame(() => { pending = false; redraw(); });
    };
  };

  const onResize = (node, redraw) => {
    let width = node.clientWidth;
    // In a separate frame: a drawing that changes the page's height while sizes are delivered is reported as an error.
    const redrawOnce = perFrame(() => {
      if (node.clientWidth === width) return;
      width = node.clientWidth;
      redraw();
    });
    new ResizeObserver(() => redrawOnce()).observe(node);
  };

  return {attachZoom, attachButtons, zoomBy, onKey, clampTranslate, perFrame, onResize};
})();
