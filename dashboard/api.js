// Requests to the server.
const kTokenKey = 'lowgear.token';
const kTimeout_ms = 15000;

// `status` 0: there was no response.
export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }

  get needsToken() { return this.status === 401 || this.status === 403; }
}

export const token = {
  get: () => sessionStorage.getItem(kTokenKey) || '',
  set: (text) => sessionStorage.setItem(kTokenKey, text),
  clear: () => sessionStorage.removeItem(kTokenKey),
};

// How far the server's clock is ahead of this one, so that ages are right where the clocks differ.
let clockOffset_s = 0;
export const serverNow_s = () => Date.now() / 1000 + clockOffset_s;

const learnClock = (response) => {
  const date = Date.parse(response.headers.get('Date') || '');
  // The header has whole seconds: half of one is the best guess for the rest.
  if (Number.isFinite(date)) clockOffset_s = date / 1000 + 0.5 - Date.now() / 1000;
};

const refusal = async (response) => {
  let error = {};
  try {
    error = (await response.json()).error || {};
  } catch {
    // Not from the server: a proxy may send another format.
  }
  return new ApiError(response.status, error.code || '', error.message || `the server returned ${response.status}`);
};

// The response to a GET, of status 2xx. Throws ApiError, or the abort of `signal`.
export const open = async (path, {signal, accept = 'application/json'} = {}) => {
  const headers = {Accept: accept};
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  let response;
  try {
    response = await fetch(path, {headers, signal, cache: 'no-store', credentials: 'omit'});
  } catch (error) {
    if (signal && signal.aborted) throw error;
    throw new ApiError(0, 'away', 'the server does not respond');
  }
  learnClock(response);
  if (!response.ok) throw await refusal(response);
  return response;
};

export const get = async (path, {signal} = {}) => {
  const timeout = AbortSignal.timeout(kTimeout_ms);
  try {
    const response = await open(path, {signal: signal ? AbortSignal.any([signal, timeout]) : timeout});
    return await response.json();
  } catch (error) {
    if (signal && signal.aborted) throw error;
    if (error instanceof ApiError) throw error;
    throw new ApiError(0, 'away', timeout.aborted ? 'the server responds too slowly' : 'the response was incomplete');
  }
};

// The token of a session, in exchange for a one-time token, which is then used up.
export const beginSession = async (oneTimeToken) => {
  const response = await fetch('/v1/sessions', {method: 'POST', headers: {'Content-Type': 'application/json'},
    body: JSON.stringify({token: oneTimeToken}), cache: 'no-store', credentials: 'omit'});
  if (!response.ok) throw await refusal(response);
  return (await response.json()).token;
};

export const jobPath = (job, rest = '') => `/v1/jobs/${encodeURIComponent(job)}${rest}`;
