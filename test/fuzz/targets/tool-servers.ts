/** What MCP servers answer over HTTP. */

import type { Target } from '../engine.ts';

/** A large event is looked through, which a small one is not: one input of so many has such events. */
const SELDOM = 16;
/** In the place of these bytes: a text that makes an event a large one, and lines that make it one of too many. */
const [LONG, LINES] = ['\x02', '\x03'];

/** The method, the status and the type are in the first line; what follows is the body. */
export async function sse(): Promise<Target> {
  const { boundedFetch } = await import('../../../src/namespaces/tools/mcp-limits.ts');

  let answer: object = {};
  globalThis.fetch = async () => answer as Response;

  return {
    name: 'sse',
    parser: [
      {
        file: 'namespaces/tools/mcp-limits.ts',
        functions: ['checkMessage', 'tooLarge', 'boundedFetch', 'refusing', 'wholeOf', 'gather', 'checkedEvent'],
      },
      { file: 'namespaces/tools/mcp-limits.ts', functions: ['eventsOf', 'in', '#endsEvent'] },
    ],
    words: [
      ...['\n', '\r', '\r\n', '\n\n', '\r\r', '\r\n\r\n', '\n\r', ': a\n', 'data: ', 'data:', 'data\n', 'event: x\n'],
      ...[
        'id: 1\n',
        'id\n',
        'retry: 10\n',
        'Data: ',
        ' data: ',
        '\xef\xbb\xbf',
        '\0',
        '\xc3',
        '{}',
        '[',
        ']',
        LONG,
        LINES,
      ],
    ],
    take: async (input) => {
      const end = input.indexOf(10);
      const [method = '', status = '', type = ''] = input.toString('latin1', 0, Math.max(0, end)).split(' ');
      const body = end < 0 ? input.subarray(input.length) : input.subarray(end + 1);
      const isSeldom = input.length % SELDOM === 0;
      const bytes = isSeldom ? inflated(body) : body;
      const size = 1 + (input.length % 97);
      answer = {
        ...{ ok: status === '200', status: status === '200' ? 200 : 400, statusText: '', url: 'http://a/' },
        ...{ body: chunksOf(bytes, isSeldom ? 4096 : size), headers: new Headers({ 'content-type': cleanType(type) }) },
        redirected: false,
      };
      let refused: Error | undefined;
      const bounded = boundedFetch((error) => {
        refused = error;
      });
      const response = await bounded('http://a/', { method: method === 'GET' ? 'GET' : 'POST' });
      const isEvents =
        status === '200' && (method === 'GET' || response.headers.get('content-type') === 'text/event-stream');
      const passed: Buffer[] = [];
      try {
        for await (const chunk of response.body ?? []) passed.push(Buffer.from(chunk));
      } catch (error) {
        if (error !== refused) throw error;
      }
      if (!isEvents) {
        if (!refused && !Buffer.concat(passed).equals(bytes)) throw new Error('an answer that changes on its way');
        return;
      }
      // A large event loses lines without a colon: an empty line of its data, or a field without a value.
      const kept = (events: ServerEvent[]) =>
        isSeldom ? events.filter(({ data }) => data.some((line) => line !== '')) : events;
      const ours = passed.flatMap((piece, index) => {
        if (piece.at(-1) !== 10) throw new Error('an event whose end nobody knows');
        const events = kept(eventsIn(piece, index === 0));
        if (events.length > 1) throw new Error('two events in one piece');
        return events;
      });
      const theirs = kept(eventsIn(bytes, true));
      // What ends with CR may go on with LF: nobody knows yet whether the event has ended.
      const lost = theirs.length - ours.length;
      if (!refused && lost !== 0 && !(lost === 1 && bytes.at(-1) === 13)) throw new Error(`${lost} events are lost`);
      const described = (event?: ServerEvent) =>
        JSON.stringify(isSeldom ? event?.data.filter((line) => line !== '') : event);
      for (const [index, event] of ours.entries()) {
        if (described(event) !== described(theirs[index])) throw new Error(`the event ${index} is another one`);
      }
    },
  };
}

interface ServerEvent {
  readonly data: string[];
  readonly event: string[];
  readonly id: string[];
}

/** As the standard has it, of all that there is at once. Of `event` and `id`, the last one counts. */
function eventsIn(bytes: Buffer, isFirst: boolean): ServerEvent[] {
  const found: ServerEvent[] = [];
  let event: ServerEvent = { data: [], event: [], id: [] };
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
  const lines = (isFirst ? text.replace(/^\ufeff/, '') : text).split(/\r\n|\n|\r/);
  for (const line of lines.slice(0, -1)) {
    const [, name = line, value = ''] = /^([^:]*): ?(.*)$/s.exec(line) ?? [];
    if (name === 'data') event.data.push(value);
    else if (name === 'event') event.event.splice(0, 1, value);
    else if (name === 'id') event.id.splice(0, 1, value);
    if (line !== '') continue;
    if (event.data.length > 0) found.push(event);
    event = { data: [], event: [], id: [] };
  }
  return found;
}

/** Before a large event that is not the first one, the mark is taken away, too. */
const LATE_MARKS = /(?<!^)\xef\xbb\xbf/g;

function inflated(body: Buffer): Buffer {
  const [first = '', ...rest] = body.toString('latin1').replace(LATE_MARKS, '').split(LONG);
  // No more than twice: it is about what an event may have, and not about how long it takes.
  const long = [first, ...rest.slice(0, 2).map((text) => 'x'.repeat(33_000) + text), ...rest.slice(2)].join('');
  return Buffer.from(
    long.replace(LINES, () => 'data: [],\n'.repeat(1001)),
    'latin1',
  );
}

/** `Headers` takes no other. */
const cleanType = (type: string): string => type.replace(/[^\x20-\x7e]/g, '');

async function* chunksOf(bytes: Buffer, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}
