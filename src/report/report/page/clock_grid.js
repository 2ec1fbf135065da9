// The clocks of a plan as a grid: a row for each rank, a cell for each of its steps, whatever time they take.
const clockGrid = (() => {
  const kRowHeight = 24;
  const kLeft = 52;
  const kTop = 22;
  const kLabelWidth = 26;
  const kLeastWidth = 3;

  const describe = (ranks) => ranks.map((ops, rank) => `rank ${rank}: ${ops.length} steps, ` +
    timelineData.describeClocks(ops)).join('; ');

  class Grid {
    constructor(container, ranks, colours) {
      Object.assign(this, {container, ranks, colours});
      this.steps = d3.max(ranks, (ops) => ops.length) || 1;
      this.canvas = element('canvas', {role: 'img', 'aria-label': `Clocks by rank and step. ${describe(ranks)}`});
      container.append(this.canvas);
      this.canvas.addEventListener('mousemove', (event) => this.hover(event));
      this.canvas.addEventListener('mouseleave', () => readout.hide());
      this.draw();
      interaction.onResize(container, () => this.draw());
    }

    draw() {
      const width = Math.max(this.container.clientWidth, kLeft + this.steps * kLeastWidth);
      const height = kTop + this.ranks.length * kRowHeight + 2;
      const ratio = Math.min(window.devicePixelRatio || 1, 2);
      Object.assign(this.canvas, {width: width * ratio, height: height * ratio});
      Object.assign(this.canvas.style, {width: `${width}px`, height: `${height}px`});
      this.cell = (width - kLeft) / this.steps;
      const context = this.canvas.getContext('2d');
      context.scale(ratio, ratio);
      context.textBaseline = 'middle';
      context.font = '12px system-ui, sans-serif';
      this.drawSteps(context);
      this.ranks.forEach((ops, rank) => this.drawRank(context, ops, rank));
    }

    drawSteps(context) {
      context.fillStyle = palette.css('--muted');
      context.textAlign = 'center';
      const every = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].find((step) => step * this.cell > 36) || 10000;
      for (let step = 0; step < this.steps; step += every) {
        context.fillText(String(step), kLeft + (step + 0.5) * this.cell, kTop / 2);
      }
    }

    drawRank(context, ops, rank) {
      const top = kTop + rank * kRowHeight;
      context.fillStyle = palette.css('--ink');
      context.textAlign = 'left';
      context.fillText(`rank ${rank}`, 2, top + kRowHeight / 2);
      context.textAlign = 'center';
      const gap = this.cell > 8 ? 1 : 0;
      ops.forEach((op, step) => {
        const {fill, text} = this.colours(op.clock_mhz);
        const left = kLeft + step * this.cell;
        context.fillStyle = fill;
        context.fillRect(left, top + 1, this.cell - gap, kRowHeight - 2);
        const width = this.cell - gap;
        for (const [from, to, colour] of timelineData.kKindMarks[op.kind]) {
          context.fillStyle = colour;
          context.fillRect(left + from * width, top + kRowHeight - 4, (to - from) * width, 3);
        }
        if (this.cell < kLabelWidth) return;
        context.fillStyle = text;
        context.fillText(`${op.kind}${op.microbatch}`, left + this.cell / 2, top + kRowHeight / 2);
      });
    }

    hover(event) {
      const box = this.canvas.getBoundingClientRect();
      const rank = Math.floor((event.clientY - box.top - kTop) / kRowHeight);
      const step = Math.floor((event.clientX - box.left - kLeft) / this.cell);
      const op = (this.ranks[rank] || [])[step];
      if (!op) return readout.hide();
      return readout.show(event.clientX, event.clientY, {title: `rank ${rank}, step ${step}`,
        colour: this.colours(op.clock_mhz).fill,
        rows: [['op', `${op.kind}${op.microbatch}`], ['clock', `${op.clock_mhz} MHz`],
          ['takes', units.time(op.duration_s, 4)]]});
    }

    onTheme(colours) {
      this.colours = colours;
      this.draw();
    }
  }

  return {Grid};
})();
