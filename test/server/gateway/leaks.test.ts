/** A provider that gives the key away, and answers that are final: what of them gets to the agent. */

import type { ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { at, Gateway, message, provide } from '../../support/servers/gateway.ts';

const KEY = 'sk-test-CANARY-0123456789';
const json = (response: ServerResponse) => response.writeHead(200, { 'content-type': 'application/json' });
const sse = (response: ServerResponse) => response.writeHead(200, { 'content-type': 'text/event-stream' });

describe('a key', () => {
  const other = 'sk-ant-api03/CANARY-0123456789';
  const hex = [...other].map((each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');
  const delta = (text: string) => ({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } });
  const data = (value: object) => `data: ${JSON.stringify(value)}\n\n`;
  const escaped = (value: object, as: string) => `data: ${JSON.stringify(value).replace(other, as)}\n\n`;
  const start = data({ type: 'message_start', message: { usage: { input_tokens: 1, output_tokens: 1 } } });
  const stop = data({ type: 'message_stop' });

  /** As an agent reads what it got: the text of all deltas, and all of it as it came. */
  async function told(send: (response: ServerResponse) => void, stream = true) {
    const { url } = await provide((request, response) => {
      request.resume();
      send(response);
    });
    const own = await Gateway.open({ settings: { providers: at(url) } });
    const good = await (await own.person('ada', other)).token();
    const { text, headers, status } = await own.messages(good, { stream });
    const texts = [...text.matchAll(/^data: (.*)$/gm)].map(([, json]) => JSON.parse(json ?? '').delta?.text ?? '');
    return { text, headers, status, said: texts.join('') };
  }

  /** Each byte in a packet of its own. */
  function trickle(response: ServerResponse, text: string): void {
    sse(response).flushHeaders();
    const bytes = Buffer.from(text);
    let at = 0;
    const next = () => {
      if (at === bytes.length) return void response.end();
      response.write(bytes.subarray(at, ++at), () => setImmediate(next));
    };
    next();
  }

  it.each<[string, string]>([
    ['plain', data(delta(other))],
    ['with its characters escaped', escaped(delta(other), hex)],
    ['with its slash escaped', escaped(delta(other), other.replace('/', '\\/'))],
    ['as JSON in JSON', data({ ...delta(''), delta: { type: 'input_json_delta', partial_json: `{"a":"${hex}"}` } })],
    ['in a comment', `: ${other}\n\n`],
    ['in the name of an event', `event: ${other}\ndata: {"type":"ping"}\n\n`],
    ['in a field', data({ type: 'ping', [other]: 1 })],
  ])('in a stream, %s, byte by byte or at once, is cut off before any of it', async (_name, bad) => {
    for (const send of [
      (response: ServerResponse) => trickle(response, start + bad + stop),
      (response: ServerResponse) => void sse(response).end(start + bad + stop),
    ]) {
      const { text } = await told(send);
      expect(text).toContain('contains the key');
      expect(text.replaceAll('\\/', '/')).not.toContain(other.slice(0, 12));
      expect(text).not.toMatch(/\\u0073|message_stop/);
    }
  });

  it.each([1, 3, 20])(
    'over several events, %i characters in each, is cut off after the common prefix of keys',
    async (size) => {
      const pieces = other.match(new RegExp(`.{1,${size}}`, 'g')) ?? [];
      const { said, text } = await told(
        (response) => void sse(response).end(start + pieces.map((piece) => data(delta(piece))).join('') + stop),
      );
      expect(text).toContain('contains the key');
      expect(said.length).toBeLessThan(8);
    },
  );

  it('that only begins, and continues as other text, is not a key, and nothing is lost', async () => {
    const pieces = ['The key begins with sk-ant-', 'api03', ' and', ' goes on.'];
    const { said, text } = await told(
      (response) => void sse(response).end(start + pieces.map((piece) => data(delta(piece))).join('') + stop),
    );
    expect(said).toBe(pieces.join(''));
    expect(text).toContain('message_stop');
  });

  it('is not passed on in JSON, in errors and in headers, plain and escaped', async () => {
    for (const as of [other, hex, other.replace('/', '\\/')]) {
      const body = message(other).replace(other, as);
      const whole = await told((response) => void json(response).end(body), false);
      expect(whole).toMatchObject({ status: 502, text: expect.stringContaining('contains the key') });
      const failing = await told(
        (response) => void response.writeHead(400, { 'request-id': as }).end(`{"error":"${as}"}`),
        false,
      );
      expect(failing.text).toContain('contains the key');
      const named = await told(
        (response) =>
          void response.writeHead(200, { 'content-type': 'application/json', 'request-id': as }).end(message('hi')),
        false,
      );
      expect(named.headers).not.toHaveProperty('request-id');
    }
  });
});

describe('whether a refusal of the provider can be retried', () => {
  it.each([
    [400, 'false'],
    [401, 'false'],
    [403, 'false'],
    [404, 'false'],
    [413, 'false'],
    [422, 'false'],
    [408, undefined],
    [429, undefined],
    [500, undefined],
    [529, undefined],
  ])('%i: %s', async (code, retry) => {
    const { url } = await provide((request, response) => {
      request.resume();
      const error = { type: 'error', error: { type: 'x', message: 'no' } };
      response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(error));
    });
    const own = await Gateway.open({ settings: { providers: at(url) } });
    const { status, headers, text } = await own.messages(await (await own.person('ada', KEY)).token());
    expect([status, headers['x-should-retry']]).toEqual([code, retry]);
    expect(JSON.parse(text).error.message).toBe('no');
  });
});
