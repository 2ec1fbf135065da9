// Small helpers to build the page, and the one floating read-out. Text only ever enters through textContent.
const element = (tag, options = {}, children = []) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === 'text') node.textContent = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
};

// The parts of a text: options of a command (--blocking-power 95) stay on one line. A word is an option's value where
// another option follows it.
const withWholeOptions = (text) => text.split(/(--[a-z][a-z-]*(?: (?:[\d.]+|[a-z]+(?= --)))?)/).map((part, i) =>
  (i % 2 ? element('span', {class: 'option', text: part}) : part));

const readout = (() => {
  const kOffset = 16;
  const box = document.getElementById('readout');

  // Shows `title` and `rows` of [name, text] next to the point (x, y) of the window.
  const show = (x, y, {title, colour, rows}) => {
    const heading = element('strong', {text: title});
    if (colour) {
      const swatch = element('span', {class: 'swatch'});
      swatch.style.background = colour;
      heading.prepend(swatch);
    }
    const list = element('dl');
    for (const [name, text] of rows) list.append(element('dt', {text: name}), element('dd', {text}));
    box.replaceChildren(heading, list);
    box.hidden = false;
    const {width, height} = box.getBoundingClientRect();
    const left = x + kOffset + width < window.innerWidth ? x + kOffset : Math.max(4, x - kOffset - width);
    const top = Math.max(4, Math.min(y + kOffset, window.innerHeight - height - 4));
    box.style.transform = `translate(${left}px, ${top}px)`;
  };
  const hide = () => { box.hidden = true; };
  return {show, hide};
})();
