// Numbers as text. A missing or non-finite number is a dash.
const units = (() => {
  const kDash = '–';
  const kMinus = '\u2212';
  const isNumber = (value) => typeof value === 'number' && Number.isFinite(value);

  const fixed = (value, digits) => {
    if (!isNumber(value)) return kDash;
    const text = value.toFixed(digits);
    // A rounded "-0.00" is zero.
    return Number(text) === 0 ? text.replace('-', '') : text.replace('-', kMinus);
  };
  const signed = (value, digits) => {
    if (!isNumber(value)) return kDash;
    const text = fixed(value, digits);
    return Number(value.toFixed(digits)) > 0 ? `+${text}` : text;
  };
  // Digits after the point that give `value` the wanted number of significant digits.
  const decimals = (value, significant) => {
    if (!isNumber(value) || value === 0) return 0;
    return Math.max(0, Math.min(9, significant - 1 - Math.floor(Math.log10(Math.abs(value)))));
  };
  const significant = (value, digits) => fixed(value, decimals(value, digits));

  // The unit that suits values up to `largest`: {name, factor} with value in unit = value * factor.
  const timeUnit = (largest) =>
    largest >= 1 ? {name: 's', factor: 1}
      : largest >= 1e-3 ? {name: 'ms', factor: 1e3} : {name: 'µs', factor: 1e6};
  const energyUnit = (largest) =>
    largest >= 1e6 ? {name: 'MJ', factor: 1e-6}
      : largest >= 1e4 ? {name: 'kJ', factor: 1e-3}
        : largest >= 1 ? {name: 'J', factor: 1} : {name: 'mJ', factor: 1e3};

  const powerUnit = (largest) =>
    largest >= 1e6 ? {name: 'MW', factor: 1e-6} : largest >= 1e4 ? {name: 'kW', factor: 1e-3} : {name: 'W', factor: 1};

  const withUnit = (value, unit, digits) =>
    isNumber(value) ? `${significant(value * unit.factor, digits)}\u00a0${unit.name}` : kDash;
  const time = (value, digits = 4) => withUnit(value, timeUnit(Math.abs(value)), digits);
  const energy = (value, digits = 4) => withUnit(value, energyUnit(Math.abs(value)), digits);
  const power = (value) => withUnit(value, powerUnit(Math.abs(value)), 4);
  const percent = (value, digits) => isNumber(value) ? `${fixed(value, digits)}\u00a0%` : kDash;
  const signedPercent = (value, digits) => isNumber(value) ? `${signed(value, digits)}\u00a0%` : kDash;

  return {isNumber, fixed, signed, decimals, significant, timeUnit, energyUnit, time, energy, power, percent,
    signedPercent};
})();

// How far an energy is above its lower bound, in per cent; null without a bound.
const relativeGap = ({energy_j, lower_bound_j}) =>
  units.isNumber(lower_bound_j) ? 100 * (energy_j - lower_bound_j) / lower_bound_j : null;

// Comparisons with the baseline and with the lower bound, in per cent.
const relative = (baseline) => ({
  saving: (energy_j) => 100 * (baseline.energy_j - energy_j) / baseline.energy_j,
  slowdown: (time_s) => 100 * (time_s - baseline.time_s) / baseline.time_s,
  gap: relativeGap,
});

// Rising numbers, those that follow each other as a range: "0 to 4, 7".
const ranges = (numbers) => {
  const runs = [];
  for (const number of numbers) {
    const last = runs[runs.length - 1];
    if (last && last[1] === number - 1) last[1] = number;
    else runs.push([number, number]);
  }
  return runs.map(([from, to]) => (from === to ? `${from}` : `${from} to ${to}`)).join(', ') || '\u2013';
};
