// Keeps a stream of events open: after an interruption it reconnects with back-off and requests the missed data.
import {ApiError, get, open} from './api.js';
import {readEvents} from './event_stream.js';

const kFirstWait_ms = 500;
const kLongestWait_ms = 10000;
const kQuiet_ms = 20000;

export class LiveStream {
  // `catchUp`: async, called once the stream is open, so that no change is lost between the two. `onEvent(name, object)`.
  // `onState({state: 'connecting' | 'live' | 'away', retryAt_ms, message})`. `onRefused(ApiError)`: the stream has given up.
  constructor(path, {catchUp, onEvent, onState, onRefused}) {
    Object.assign(this, {path, catchUp, onEvent, onState, onRefused});
    this.stopper = new AbortController();
  }

  stop() { this.stopper.abort(); }

  async run() {
    const {signal} = this.stopper;
    let wait_ms = kFirstWait_ms;
    this.onState({state: 'connecting'});
    while (!signal.aborted) {
      let message = 'the server closed the stream';
      try {
        await this.readOnce(() => { wait_ms = kFirstWait_ms; });
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof ApiError)) message = 'the connection was lost';
        else if (error.needsToken || error.status === 404) return void this.onRefused(error);
        else message = error.message;
      }
      if (signal.aborted) return;
      // Random, so that many pages do not reconnect at the same time.
      const pause_ms = wait_ms * (0.75 + 0.5 * Math.random());
      this.onState({state: 'away', retryAt_ms: Date.now() + pause_ms, message});
      await this.sleep(pause_ms);
      wait_ms = Math.min(2 * wait_ms, kLongestWait_ms);
    }
  }

  async readOnce(onOpen) {
    const attempt = new AbortController();
    const giveUp = () => attempt.abort();
    this.stopper.signal.addEventListener('abort', giveUp);
    const watch = this.watchQuiet(giveUp);
    try {
      const response = await open(this.path, {signal: attempt.signal, accept: 'text/event-stream'});
      const reading = readEvents(response, (name, data) => this.take(name, data), watch.heard);
      reading.catch(() => {});  // Awaited below; it may fail while catchUp still runs.
      await this.catchUp(attempt.signal);
      onOpen();
      this.onState({state: 'live'});
      await reading;
    } finally {
      watch.stop();
      giveUp();
      this.stopper.signal.removeEventListener('abort', giveUp);
    }
  }

  take(name, data) {
    let event;
    try {
      event = JSON.parse(data);
    } catch {
      return;  // Half an event at the end of a stream that broke.
    }
    this.onEvent(name, event);
  }

  // A stream may be quiet because nothing happens or because the server is gone: a request tells which.
  watchQuiet(giveUp) {
    let heard_ms = Date.now();
    const timer = setInterval(async () => {
      if (Date.now() - heard_ms < kQuiet_ms) return;
      try {
        await get('/healthz');
        heard_ms = Date.now();
      } catch (error) {
        // A server that drains or has a full disk still answers.
        if (error.status === 0) giveUp();
      }
    }, kQuiet_ms / 4);
    return {heard: () => { heard_ms = Date.now(); }, stop: () => clearInterval(timer)};
  }

  sleep(time_ms) {
    const {signal} = this.stopper;
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, time_ms);
      signal.addEventListener('abort', () => { clearTimeout(timer); resolve(); }, {once: true});
    });
  }
}
