// Server-sent events out of the bytes of a response. EventSource cannot send an Authorization header.

// Takes text piece by piece and calls `onEvent(name, data)` for every event that is complete.
export class EventParser {
  constructor(onEvent) {
    this.onEvent = onEvent;
    this.rest = '';
    this.name = '';
    this.data = [];
  }

  push(text) {
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop();
    for (const line of lines) this.takeLine(line);
  }

  takeLine(line) {
    if (line === '') {
      if (this.data.length) this.onEvent(this.name || 'message', this.data.join('\n'));
      this.name = '';
      this.data = [];
      return;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') this.name = value;
    if (field === 'data') this.data.push(value);
  }
}

// Reads `response` to its end.
export const readEvents = async (response, onEvent, onBytes) => {
  const parser = new EventParser(onEvent);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    onBytes();
    parser.push(value);
  }
};
