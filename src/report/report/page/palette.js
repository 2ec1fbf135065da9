// Colours. The clock scale is matplotlib's "plasma" (CC0): lightness rises evenly from slow to fast, so that it reads
// the same in grey and with any colour vision.
const palette = (() => {
  const kPlasma = ['#0d0887', '#5302a3', '#8b0aa5', '#b83289', '#db5c68', '#f48849', '#febd2a', '#f0f921'];
  const darkQuery = window.matchMedia('screen and (prefers-color-scheme: dark)');

  const plasma = d3.scale.linear().domain(d3.range(kPlasma.length).map((i) => i / (kPlasma.length - 1)))
    .range(kPlasma).interpolate(d3.interpolateLab).clamp(true);

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Function of a clock in [low, high] MHz; each clock's fill and the text colour that reads on it.
  const clockColours = (lowMhz, highMhz) => {
    const [from, to] = [Number(css('--clocks-from')), Number(css('--clocks-to'))];
    const cache = new Map();
    return (clockMhz) => {
      if (!cache.has(clockMhz)) {
        const share = highMhz > lowMhz ? (clockMhz - lowMhz) / (highMhz - lowMhz) : 1;
        const fill = plasma(from + share * (to - from));
        cache.set(clockMhz, {fill, text: d3.lab(fill).l > 58 ? '#16121a' : '#ffffff'});
      }
      return cache.get(clockMhz);
    };
  };

  // Drawings that use colours are redrawn when these change.
  const redraws = [];
  const onChange = (redraw) => redraws.push(redraw);
  const changed = () => redraws.forEach((redraw) => redraw());
  darkQuery.addEventListener('change', changed);
  window.matchMedia('print').addEventListener('change', changed);
  return {clockColours, css, onChange, changed};
})();
