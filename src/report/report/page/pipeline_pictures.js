// Pipelines below each other on one time axis: how plans change from the slowest to the fastest.
const pipelinePictures = (() => {
  const kLane = 13;
  const kGap = 2;
  const kLeft = 4;
  const kTop = 2;
  const kAxis = 20;
  const kSamples = 5;

  // Ops are [start_s, duration_s, clock_mhz, kind, microbatch].
  const clocksOf = (pictures) => d3.extent([].concat(...pictures.map(({ranks}) =>
    [].concat(...ranks.map((ops) => d3.extent(ops, (op) => op[2]))))));

  class Picture {
    constructor(container, picture, longest_s) {
      Object.assign(this, {container, picture, longest_s});
      this.canvas = element('canvas', {role: 'img', 'aria-label': `${picture.name}: ${picture.ranks.length} ranks, ` +
        `${units.time(picture.time_s)}, clocks ${clocksOf([picture]).join(' to ')} MHz`});
      container.append(this.canvas);
      this.canvas.addEventListener('mousemove', (event) => this.hover(event));
      this.canvas.addEventListener('mouseleave', () => readout.hide());
      interaction.onResize(container, () => this.draw());
    }

    draw() {
      const {canvas, picture} = this;
      const width = Math.max(240, this.container.clientWidth);
      const height = kTop + picture.ranks.length * (kLane + kGap) + kAxis;
      const ratio = Math.min(window.devicePixelRatio || 1, 2);
      Object.assign(canvas, {width: width * ratio, height: height * ratio});
      Object.assign(canvas.style, {width: `${width}px`, height: `${height}px`});
      this.x = d3.scale.linear().domain([0, this.longest_s]).range([kLeft, width - kLeft]);
      const context = canvas.getContext('2d');
      context.scale(ratio, ratio);
      picture.ranks.forEach((ops, rank) => this.drawRank(context, ops, kTop + rank * (kLane + kGap)));
      this.drawAxis(context, height);
    }

    drawRank(context, ops, top) {
      context.fillStyle = palette.css('--lane');
      context.fillRect(this.x(0), top, this.x(this.picture.time_s) - this.x(0), kLane);
      for (const [start_s, duration_s, clock_mhz, kind] of ops) {
        const left = this.x(start_s);
        const width = this.x(start_s + duration_s) - left;
        const gap = width > 4 ? 0.7 : 0;
        context.fillStyle = this.colours(clock_mhz).fill;
        context.fillRect(left, top, Math.max(0.5, width - gap), kLane);
        if (kind === 'F') continue;
        context.fillStyle = '#0000006b';
        context.fillRect(left, top + kLane - 3, Math.max(0.5, width - gap), 3);
      }
    }

    drawAxis(context, height) {
      const unit = units.timeUnit(this.longest_s);
      context.fillStyle = palette.css('--muted');
      context.font = '12px system-ui, sans-serif';
      context.textBaseline = 'alphabetic';
      const scale = d3.scale.linear().domain([0, this.longest_s * unit.factor]).range(this.x.range());
      const count = Math.max(2, Math.floor(this.container.clientWidth / 110));
      const text = scale.tickFormat(count);
      for (const tick of scale.ticks(count)) {
        context.textAlign = tick === 0 ? 'left' : 'center';
        if (scale(tick) > scale.range()[1] - 22) continue;
        context.fillText(`${text(tick)} ${unit.name}`, scale(tick), height - 4);
      }
    }

    hover(event) {
      const box = this.canvas.getBoundingClientRect();
      const rank = Math.floor((event.clientY - box.top - kTop) / (kLane + kGap));
      const at = this.x.invert(event.clientX - box.left);
      const op = (this.picture.ranks[rank] || []).find(([start_s, duration_s]) => start_s <= at && at < start_s + duration_s);
      if (!op) return readout.hide();
      return readout.show(event.clientX, event.clientY, {title: `rank ${rank}, ${op[3]}${op[4]}`,
        colour: this.colours(op[2]).fill, rows: [['clock', `${op[2]} MHz`], ['takes', units.time(op[1], 4)]]});
    }

    onTheme(colours) {
      this.colours = colours;
      this.draw();
    }
  }

  const legend = ([low, high], colours) => {
    const swatch = (background) => {
      const node = element('span', {class: 'swatch-sample'});
      node.style.background = background;
      return node;
    };
    const clocks = d3.set(d3.range(kSamples).map((i) => Math.round(low + (high - low) * i / (kSamples - 1)))).values();
    return [...clocks.map((clock) => element('li', {}, [swatch(colours(Number(clock)).fill), `${clock} MHz`])),
      element('li', {}, [swatch(palette.css('--lane')), 'waiting'])];
  };

  // Appends a panel with pictures to `parent`.
  const panel = (parent, {title, basis, caption, pictures}) => {
    const list = element('ul', {class: 'legend', 'aria-label': 'Legend'});
    const boxes = pictures.map(() => element('div', {class: 'series-box'}));
    parent.append(element('section', {class: 'panel', 'aria-label': title}, [
      element('h2', {}, [`${title} `, element('span', {class: 'basis', text: basis})]), list,
      element('div', {class: 'pipeline-pictures'}, pictures.map(({name, time_s, energy_j}, i) => element('figure', {},
        [element('figcaption', {text: `${name}: ${units.time(time_s, 5)}, ${units.energy(energy_j, 5)}`}), boxes[i]]))),
      element('p', {class: 'caption', text: caption})]));
    const longest_s = d3.max(pictures, (picture) => picture.time_s);
    const range = clocksOf(pictures);
    const all = pictures.map((picture, i) => new Picture(boxes[i], picture, longest_s));
    const colour = () => {
      const colours = palette.clockColours(...range);
      all.forEach((picture) => picture.onTheme(colours));
      list.replaceChildren(...legend(range, colours));
    };
    colour();
    palette.onChange(colour);
  };

  return {panel};
})();
