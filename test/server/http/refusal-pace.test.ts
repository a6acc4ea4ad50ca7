/** Requests beyond the rate limit are answered late, and one after the other: a flood of them costs the server little. */

import { beforeAll, expect, it } from 'vitest';
import { TestServer } from '../../support/servers/server.ts';

const DELAY_MS = 250;
const PACE_MS = 50;
const LONGEST_MS = 5000;
/** Node's timers may fire a little before their time. */
const EARLY_MS = 5;
const BURST = 12;

let server: TestServer;
let ann: string;
let ben: string;
/** Of ann, too. */
let another: string;

beforeAll(async () => {
  server = await TestServer.start({ rates: { burst: BURST, perSecond: 0.001 } });
  ann = await server.user('ann', 'member');
  const { json } = await server.call('POST /v1/tokens', { body: { name: 'another', user: 'ann' } });
  another = String(json.token);
  ben = await server.user('ben', 'member');
  for (const token of [ann, another]) {
    for (let sent = 0; sent < BURST; sent++) expect((await server.call('GET /v1/me', { token })).status).toBe(200);
  }
});

/** Milliseconds until each request is refused, in the order in which they are. */
async function refusals(count: number, tokens: readonly string[] = [ann]): Promise<number[]> {
  const began = performance.now();
  const one = async (token: string) => {
    const { status, headers, text } = await server.call('GET /v1/me', { token });
    expect(status).toBe(429);
    expect(text).toContain('RATE_LIMITED');
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
    return performance.now() - began;
  };
  const sent = Array.from({ length: count }, (_, at) => one(tokens[at % tokens.length] ?? ''));
  return (await Promise.all(sent)).sort((a, b) => a - b);
}

it('a request over the limit is refused after a quarter of a second, with the time to try again', async () => {
  const [only = 0] = await refusals(1);
  expect(only).toBeGreaterThan(DELAY_MS - EARLY_MS);
});

it('those of one user are refused 50 ms apart, with any token', async () => {
  const times = await refusals(20, [ann, another]);
  for (const [at, ms] of times.entries()) expect(ms).toBeGreaterThan(DELAY_MS + at * PACE_MS - EARLY_MS);
});

it('a client that sends the next one at once, on many connections, gets no faster responses', async () => {
  const began = performance.now();
  let answers = 0;
  const loop = async () => {
    while (performance.now() - began < 2000) {
      await server.call('GET /v1/me', { token: ann });
      answers++;
    }
  };
  await Promise.all(Array.from({ length: 40 }, loop));
  expect(answers).toBeGreaterThan(0);
  expect(answers).toBeLessThanOrEqual((performance.now() - began) / PACE_MS + 1);
});

it('nobody waits longer than five seconds, and no other user waits', async () => {
  const flood = refusals(150);
  const first = await Promise.race([flood.then(() => 'ann'), server.call('GET /v1/me', { token: ben })]);
  expect(first).toMatchObject({ status: 200 });
  const times = await flood;
  expect(times.at(-1)).toBeGreaterThan(LONGEST_MS - EARLY_MS);
  // Without the limit, the last would come after 7.7 seconds.
  expect(times.at(-1)).toBeLessThan(LONGEST_MS + 2000);
});
