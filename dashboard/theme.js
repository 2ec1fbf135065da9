// The theme: the system's choice unless the user made another one here. Runs before the page is drawn.
const theme = (() => {
  const kKey = 'lowgear.theme';
  const kChoices = ['system', 'light', 'dark'];
  const kMedia = {system: '(prefers-color-scheme: dark)', light: 'not all', dark: 'all'};
  const stylesheet = document.getElementById('dark-theme');

  const stored = () => {
    try {
      return localStorage.getItem(kKey);
    } catch {
      return null;  // Storage is forbidden: the choice lasts as long as the page.
    }
  };
  let current = kChoices.includes(stored()) ? stored() : 'system';
  stylesheet.media = kMedia[current];

  const next = () => {
    current = kChoices[(kChoices.indexOf(current) + 1) % kChoices.length];
    stylesheet.media = kMedia[current];
    try {
      localStorage.setItem(kKey, current);
    } catch {
      // As above.
    }
  };
  return {current: () => current, next};
})();
