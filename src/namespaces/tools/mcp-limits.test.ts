import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { boundedFetch, messagesOf } from './mcp-limits.ts';

interface Answer {
  readonly method?: string;
  readonly status?: number;
  readonly type: string;
  readonly body: string;
}

/** What the SDK would read, and why the server was given up. */
async function fetched({ method = 'POST', status = 200, type, body }: Answer) {
  const server = createServer((_request, response) => {
    response.writeHead(status, type === '' ? {} : { 'content-type': type });
    response.end(body);
  });
  onTestFinished(() => void server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  let refused = '';
  const bounded = boundedFetch((error) => {
    refused = error.message;
  });
  const response = await bounded(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`, { method });
  const text = await response.text().catch(() => '');
  return { text, refused, type: response.headers.get('content-type') };
}

const MANY = `[${'[],'.repeat(60_000)}[]]`;
const [JSON_TYPE, EVENTS] = ['application/json', 'text/event-stream'];
/** The mark of a byte order, and the same as somebody wrote it who took its bytes for letters. */
const [MARK, LETTERS] = ['\ufeff', '\u00ef\u00bb\u00bf'];

it.each<[string, Answer]>([
  ['a message', { type: JSON_TYPE, body: MANY }],
  ['a message behind a mark of the byte order', { type: JSON_TYPE, body: MARK + MANY }],
  ['an event', { type: EVENTS, body: `data: ${MANY}\n\n` }],
  [
    'an event of several lines',
    { type: EVENTS, body: `data: ${MANY.replaceAll('],[],[],[],'.repeat(100), '$&\ndata: ')}\n\n` },
  ],
  ['an event behind a mark of the byte order', { type: EVENTS, body: `${MARK}data: ${MANY}\n\n` }],
  ['an event whose type is in capitals', { type: 'Text/Event-Stream', body: `data: ${MANY}\n\n` }],
  ['a stream that was asked for, of another type', { method: 'GET', type: 'text/plain', body: `data: ${MANY}\n\n` }],
  ['a stream that was asked for, of no type', { method: 'GET', type: '', body: `data: ${MANY}\r\r:` }],
  ['an error that is called events', { status: 400, type: EVENTS, body: MANY }],
])('%s with too many parts is refused', async (_name, answer) => {
  const { text, refused } = await fetched(answer);
  expect(text).toBe('');
  expect(refused).toContain('too many parts');
});

it.each<[string, string]>([
  ['behind two marks of the byte order', `${MARK}${MARK}data: ${MANY}\n\n`],
  ['behind the letters of a mark', `${LETTERS}data: ${MANY}\n\n`],
  ['behind a mark and its letters', `${MARK}${LETTERS}data: ${MANY}\n\n`],
  ['in a field that is none', `Data: ${MANY}\n\n`],
  ['without its end', `data: ${MANY}\n`],
])('what is %s is nothing that anybody reads', async (_name, body) => {
  const { text } = await fetched({ type: EVENTS, body });
  expect(text).not.toContain('[]');
});

it('large events arrive with all fields, however their lines end', async () => {
  const long = 'x'.repeat(40_000);
  for (const end of ['\n', '\r', '\r\n']) {
    const sent = [`: a comment`, 'event: message', 'id: 7', 'retry: 10', `data: {"a":`, `data: "${long}"}`, '', ''];
    const { text, refused } = await fetched({ type: `${EVENTS}; charset=utf-8`, body: `${MARK}${sent.join(end)}:` });
    expect(text === sent.slice(1).join('\n'), text.slice(0, 200)).toBe(true);
    expect(refused).toBe('');
  }
});

it.each(['\n', '\r', '\r\n'])('the end of an event is recognized at once if lines end with %j', async (end) => {
  const { text } = await fetched({ type: EVENTS, body: `data: 1${end}${end}data: 2${end}${end}:` });
  // Behind a CR, LF may follow: readers wait for what comes next.
  expect(text.match(/data: \d(?:\r\r\n|(?:\n|\r\n){2})/g)).toHaveLength(2);
});

it('small events and other answers arrive unchanged', async () => {
  const body = `${MARK}data: {}\r\n\r\n: b\n\n`;
  expect(await fetched({ type: EVENTS, body })).toMatchObject({ text: body.slice(1), type: EVENTS });
  const page = '<h1>No</h1>';
  expect(await fetched({ status: 500, type: 'text/html; charset=utf-8', body: page })).toEqual({
    text: page,
    refused: '',
    type: 'text/html',
  });
});

it.each([
  ['of the byte order', MARK],
  ['of other languages', '\u00a0\u2003'],
])('a line that begins with spaces %s is not a message', async (_name, blanks) => {
  const written = async function* () {
    yield Buffer.from(`${blanks}{"jsonrpc":"2.0","method":"a"}\n \t{"jsonrpc":"2.0","method":"b"}\r\n`);
  };
  const messages = [];
  for await (const message of messagesOf(written())) messages.push(message);
  expect(messages).toEqual([{ jsonrpc: '2.0', method: 'b' }]);
});
