// Colours. The clock scale is matplotlib's "plasma" (CC0): lightness rises evenly from slow to fast, so that it reads
// the same in grey and with any colour vision.
const palette = (() => {
  const kPlasma = ['#0d0887', '#5302a3', '#8b0aa5', '#b83289', '#db5c68', '#f48849', '#febd2a', '#f0f921'];
  // Ends of the scale that would vanish on a dark or a light page are left out.
  const kSpan = {light: [0.05, 0.8], dark: [0.2, 0.84]};
  const darkQuery = window.matchMedia('screen and (prefers-color-scheme: dark)');

  const plasma = d3.scale.linear().domain(d3.range(kPlasma.length).map((i) => i / (kPlasma.length - 1)))
    .range(kPlasma).interpolate(d3.interpolateLab).clamp(true);

  // Function of a clock in [low, high] MHz; each clock's fill and the text colour that reads on it.
  const clockColours = (lowMhz, highMhz) => {
    const [from, to] = kSpan[darkQuery.matches ? 'dark' : 'light'];
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

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const onChange = (redraw) => {
    darkQuery.addEventListener('change', redraw);
    window.matchMedia('print').addEventListener('change', redraw);
  };
  return {clockColours, css, onChange};
})();
