/** Answers that are made to take long, or to fill the memory: each ends as it should, and holds up nobody else. */

import { once } from 'node:events';
import { type IncomingMessage, request, type ServerResponse } from 'node:http';
import { setImmediate } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { at, Gateway, type Person, provide, type Reply } from '../../support/servers/gateway.ts';
import { expectNoStall } from '../../support/servers/stalls.ts';

const MB = 1024 * 1024;
let send: (response: ServerResponse) => Promise<void>;
let gateway: Gateway;
let ada: Person;
let sessions = 0;

beforeAll(async () => {
  const { url } = await provide((request, response) => {
    request.resume();
    void send(response).catch(() => response.destroy());
  });
  gateway = await Gateway.open({ settings: { providers: at(url) } });
  ada = await gateway.person('ada', 'sk-test-CANARY-0123456789');
  // What is compiled with the first call is no stall.
  send = (response) => pour(response.writeHead(200, { 'content-type': 'text/event-stream' }), packets([start, stop]));
  await read(await ada.token(), true);
});

/** In packets, as fast as they are taken, and with turns for others between them. */
async function pour(response: ServerResponse, packets: Iterable<Buffer>): Promise<void> {
  for (const packet of packets) {
    if (response.destroyed) return;
    if (!response.write(packet)) await Promise.race([once(response, 'drain'), once(response, 'close')]);
    await setImmediate();
  }
  response.end();
}

/** Made ahead: only the gateway's work is to be measured. */
function* packets(pieces: Iterable<string | Buffer>): Generator<Buffer> {
  for (const piece of pieces) {
    const bytes = Buffer.from(piece);
    for (let from = 0; from < bytes.length; from += 65_536) yield bytes.subarray(from, from + 65_536);
  }
}

function* repeated(piece: string | Buffer, times: number): Generator<string | Buffer> {
  for (let time = 0; time < times; time++) yield piece;
}

const start = 'data: {"type":"message_start","message":{"usage":{"input_tokens":1,"output_tokens":1}}}\n\n';
const stop =
  'data: {"type":"message_delta","delta":{},"usage":{"output_tokens":3}}\n\ndata: {"type":"message_stop"}\n\n';
const block = (input: string) =>
  `data: {"type":"content_block_start","content_block":{"type":"tool_use","input":${input}}}\n\n`;
const keys = (count: number) => `{${Array.from({ length: count }, (_, at) => `"k${at}":1`).join(',')}}`;

interface Outcome extends Pick<Reply, 'status'> {
  readonly bytes: number;
  readonly head: string;
  readonly tail: string;
  /** Calls whose tokens could only be estimated. */
  readonly estimated: number;
}

/** Those that take the longest of each way to take long: only with these the event loop is measured. */
const LONGEST = new Set([
  ...['300,000 keys in the input of a tool', 'a text of 12 MB', '60,000 tiny events', '300,000 empty lines'],
  ...['a depth of a million', 'a million objects'],
]);

async function asked(name: string, type: string, pieces: () => Iterable<string | Buffer>): Promise<Outcome> {
  const made = [...packets(pieces())];
  send = async (response) => {
    response.writeHead(200, { 'content-type': type });
    await pour(response, made);
  };
  const session = `ses_${++sessions}`;
  const token = await ada.token({ session });
  let reply: Omit<Outcome, 'estimated'> | undefined;
  const work = async () => {
    reply = await read(token, type !== 'application/json');
  };
  await (LONGEST.has(name) ? expectNoStall(work) : work());
  if (!reply) throw new Error('nothing was asked');
  return { ...reply, estimated: (await gateway.models.usage.session(session)).estimated };
}

/** A text of 12 MB is not put together here: that would be the longest stall of all. */
async function read(token: string, stream: boolean): Promise<Omit<Outcome, 'estimated'>> {
  const sent = request({
    ...{ socketPath: gateway.socket, path: '/anthropic/v1/messages', method: 'POST', agent: false },
    headers: { 'content-type': 'application/json', 'x-api-key': token },
  });
  sent.end(JSON.stringify({ model: 'claude-sonnet-4-5', messages: [], stream }));
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  let [bytes, head, tail] = [0, '', ''];
  for await (const chunk of response) {
    bytes += chunk.length;
    if (head.length < 1000) head += chunk.toString('latin1', 0, 1000);
    tail = (tail + chunk.toString('latin1', Math.max(0, chunk.length - 1000))).slice(-1000);
  }
  return { status: response.statusCode ?? 0, bytes, head, tail };
}

describe('a stream', () => {
  it.each<[string, () => Iterable<string | Buffer>]>([
    ['300,000 keys in the input of a tool', () => [start, block(keys(300_000)), stop]],
    ['a text of 12 MB', () => [start, block(`"${'x'.repeat(12 * MB)}"`), stop]],
    ['6 MB of escapes', () => [start, block(`"${'\\u0041'.repeat(MB)}"`), stop]],
    ['lone surrogates', () => [start, block(`"${'\\ud800'.repeat(100_000)}"`), stop]],
    ['60,000 tiny events', () => [start, ...repeated('data: {"type":"ping"}\n\n'.repeat(3000), 20), stop]],
    ['300,000 comments', () => [start, ...repeated(':\n\n'.repeat(10_000), 30), stop]],
    ['300,000 empty lines', () => [start, ...repeated('\n\r'.repeat(10_000), 15), stop]],
    ['a comment of 10 MB', () => [start, ':', ...repeated('x'.repeat(MB), 10), '\n\n', stop]],
  ])('with %s passes', async (name, pieces) => {
    const { tail, estimated } = await asked(name, 'text/event-stream', pieces);
    expect(tail.slice(-stop.length)).toBe(stop);
    expect(estimated).toBe(0);
  });

  it.each<[string, string, () => Iterable<string | Buffer>]>([
    ['300,000 fields that nobody knows', '"k0"', () => [start, `data: ${keys(300_000)}\n\n`]],
    ['a depth of a million', 'is not JSON', () => [start, block('['.repeat(1_000_000))]],
    ['data without end', 'an event is larger than', () => [start, 'data: "', ...repeated('x'.repeat(MB), 40)]],
    ['data without end that is no JSON', 'is not JSON', () => [start, 'data: ', ...repeated('x'.repeat(MB), 40)]],
    [
      'lines of data without end',
      'an event has more than',
      () => [start, 'data: [1\n', ...repeated('data:  \n'.repeat(100_000), 10)],
    ],
    [
      'bytes that are no text',
      'is not JSON',
      () => [start, Buffer.from([...Buffer.from('data: "'), 0xff, 0xc0, 0x22, 10, 10])],
    ],
    ['a name of 10 MB', 'the field', () => [start, `data: {"${'x'.repeat(10 * MB)}":1}\n\n`]],
  ])('with %s ends with an error', async (name, words, pieces) => {
    const { head, tail } = await asked(name, 'text/event-stream', pieces);
    expect(head.slice(0, start.length)).toBe(start);
    expect(head.slice(start.length).trim()).toMatch(/^event: error\ndata: [^\n]*$/);
    expect(JSON.parse(tail.slice(tail.lastIndexOf('data: ') + 6)).error.message).toContain(words);
  });
});

describe('an answer without a stream', () => {
  const answer = (text: string) =>
    `{"type":"message","content":[{"type":"tool_use","input":${text}}],"usage":{"input_tokens":1,"output_tokens":2}}`;

  it.each<[string, string]>([
    ['300,000 keys', keys(300_000)],
    ['a text of 12 MB', `"${'x'.repeat(12 * MB)}"`],
    ['a million objects', `[${'{},'.repeat(1_000_000)}{}]`],
  ])('with %s passes, and is counted', async (name, input) => {
    const { status, bytes, estimated } = await asked(name, 'application/json', () => [answer(input)]);
    expect([status, bytes, estimated]).toEqual([200, answer(input).length, 0]);
  });
});

it('an error without end is cut off', async () => {
  send = async (response) => {
    response.writeHead(400, { 'content-type': 'application/json' });
    await pour(response, packets(repeated('x'.repeat(MB), 40)));
  };
  const { status, text } = await gateway.messages(await ada.token());
  expect([status, JSON.parse(text).error.message]).toEqual([502, expect.stringContaining('its error is larger than')]);
});

it('the answers held for one session have a total limit', async () => {
  const began: (() => void)[] = [];
  const filled = Array.from({ length: 6 }, () => new Promise<void>((resolve) => began.push(resolve)));
  send = async (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: "');
    for (let mb = 0; mb < 30 && !response.destroyed; mb++) {
      if (!response.write('x'.repeat(MB))) await Promise.race([once(response, 'drain'), once(response, 'close')]);
    }
    began.shift()?.();
    // It never ends: only the sum ends it.
  };
  const gone = new AbortController();
  const token = await ada.token();
  const calls = filled.map(() => gateway.messages(token, { stream: true, signal: gone.signal }).catch(() => undefined));
  const first = await Promise.race(calls);
  expect(first?.text).toContain('use more than');
  gone.abort();
  await Promise.all(calls);
});
