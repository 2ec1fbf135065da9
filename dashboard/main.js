// Starts the page and follows its address: #/ is the list of jobs, #/jobs/ID one job.
import shared from './shared.js';
import {beginSession, token} from './api.js';
import {JobView} from './job_view.js';
import {JobsView} from './jobs_view.js';
import {button, message, setClass, setText} from './parts.js';
import {signIn} from './sign_in.js';

const {palette, theme} = shared;
const byId = (id) => document.getElementById(id);
const main = byId('main');

let view = null;
let connection = {state: 'connecting'};

const drawConnection = () => {
  const node = byId('connection');
  const wait_s = Math.max(0, Math.ceil((connection.retryAt_ms - Date.now()) / 1000));
  const texts = {connecting: 'Connecting …', live: 'Live',
    away: `Not connected: ${connection.message}; next try in ${wait_s} s`,
    none: ''};
  setClass(node, `connection ${connection.state}`);
  setText(node, texts[connection.state]);
  document.documentElement.dataset.connection = connection.state;
};

const setConnection = (state) => {
  connection = state;
  drawConnection();
};

const stopView = () => {
  if (view) view.stop();
  view = null;
};

const leaveView = () => {
  stopView();
  setConnection({state: 'none'});
  setClass(main, '');
};

const askForToken = (reason) => {
  leaveView();
  token.clear();
  byId('sign-out').hidden = true;
  signIn(main, reason, route);
};

const refuse = (error) => {
  if (error.needsToken) {
    askForToken(!token.get() ? 'Sign in to see the jobs.'
      : error.status === 403 ? 'This token lacks the scope read.' : 'The server does not know this token.');
    return;
  }
  leaveView();
  main.replaceChildren(message('Not found', error.message, [button('Show all jobs', () => { location.hash = '#/'; })]));
};

const route = () => {
  stopView();
  setClass(main, '');
  byId('sign-out').hidden = !token.get();
  const handlers = {onState: setConnection, onRefused: refuse};
  const found = /^#\/jobs\/([^/]+)$/.exec(location.hash);
  let job = null;
  try {
    job = found && decodeURIComponent(found[1]);
  } catch {
    job = found[1];  // Invalid encoding: use the text as it is; the server will not find it.
  }
  view = job ? new JobView(main, job, handlers) : new JobsView(main, handlers);
};

// The address that `lowgear serve` prints ends with #token=...: it must be neither in the history nor used again.
const start = async () => {
  const found = /^#token=([0-9a-f]+)$/.exec(location.hash);
  if (!found) return route();
  history.replaceState(null, '', '#/');
  try {
    token.set(await beginSession(found[1]));
  } catch (error) {
    if (!token.get()) return askForToken(error.message || 'The server does not respond.');
  }
  return route();
};

const drawTheme = () => {
  const texts = {system: '◐ System', light: '○ Light', dark: '● Dark'};
  setText(byId('theme'), texts[theme.current()]);
  byId('theme').title = 'Change the theme: system, light or dark';
  byId('theme').setAttribute('aria-label', `Theme: ${theme.current()}`);
};

byId('theme').addEventListener('click', () => {
  theme.next();
  drawTheme();
  palette.changed();
});
byId('sign-out').addEventListener('click', () => {
  token.clear();
  route();
});
palette.onChange(() => view && view.onTheme());
window.addEventListener('hashchange', () => {
  start();
  main.focus({preventScroll: true});
  window.scrollTo(0, 0);
});
setInterval(drawConnection, 1000);
drawTheme();
start();
