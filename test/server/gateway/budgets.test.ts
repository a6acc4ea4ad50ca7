/** Budgets hold for calls at the same time: what they may come to is kept back until it is known what they came to. */

import type { ServerResponse } from 'node:http';
import { pino } from 'pino';
import { afterAll, expect, it, vi } from 'vitest';
import { errorCodes } from '../../../src/protocol/error-codes.ts';
import { CellaError } from '../../../src/protocol/errors.ts';
import { UsageLedger } from '../../../src/server/gateway/usage-ledger.ts';
import type { ServerConfig } from '../../../src/settings/server-config.ts';
import { FileStorage } from '../../../src/storage/file/file-storage.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { at, Gateway, message, provide } from '../../support/servers/gateway.ts';

const KEY = 'sk-test-CANARY-0123456789';
const USED = { input_tokens: 100, output_tokens: 100 };
const chat = [{ role: 'user', content: 'hello' }];
const asking = (max_tokens: number) => ({ body: { model: 'claude-sonnet-4-5', max_tokens, messages: chat } });

const opened = new AsyncDisposableStack();
afterAll(() => opened.disposeAsync());
const openStorage = async () => opened.use(await FileStorage.open(await scratchFolder()));

/** A provider that answers when it is told to. */
async function patient() {
  const held: ServerResponse[] = [];
  let arrival = Promise.withResolvers<void>();
  const { url } = await provide((request, response) => {
    request.resume();
    held.push(response);
    arrival.resolve();
  });
  const answer = (status = 200) => {
    arrival = Promise.withResolvers();
    for (const each of held.splice(0)) {
      each.writeHead(status, { 'content-type': 'application/json' }).end(message('hi', USED));
    }
  };
  return { url, held, answer, arrived: () => (held.length > 0 ? Promise.resolve() : arrival.promise) };
}

it.each([
  ['USD of the session', { sessionUsd: 0.0089 }, {}],
  ['tokens of the session', { sessionTokens: 1000 }, {}],
  ['USD of the user', {}, { modelUsdPerDay: 0.0089 }],
  ['tokens of the user', {}, { modelTokensPerDay: 1000 }],
])('in %s are not exceeded by concurrent calls', async (_name, settings, quotas) => {
  const { url } = await provide(async (request, response) => {
    await request.toArray();
    response.writeHead(200, { 'content-type': 'application/json' }).end(message('hi', USED));
  });
  const own = await Gateway.open({ settings: { providers: at(url), ...settings } });
  const person = await own.person('ada', KEY, quotas);
  // A user's is one for all of their sessions.
  const sessions = 'sessionUsd' in settings || 'sessionTokens' in settings ? ['ses_1'] : ['ses_1', 'ses_2'];
  const tokens = await Promise.all(sessions.map((session) => person.token({ session })));
  const call = async (index: number) => (await own.messages(tokens[index % tokens.length] ?? '', asking(200))).status;
  const statuses = await Promise.all(Array.from({ length: 24 }, (_, index) => call(index)));
  expect(statuses.filter((status) => status === 200)).toHaveLength(5);
  expect(new Set(statuses)).toEqual(new Set([200, 429]));
  const { calls: counted, input, output } = await own.models.usage.today(person.principal.userId);
  expect([counted, input + output]).toEqual([5, 1000]);
});

it('make a call wait for another if both do not fit, and forget it if its caller leaves', async () => {
  const provider = await patient();
  const own = await Gateway.open({ settings: { providers: at(provider.url), sessionTokens: 1000 } });
  const token = await (await own.person('ada', KEY)).token();
  const first = own.messages(token, asking(900));
  await provider.arrived();
  const leave = new AbortController();
  const second = own.messages(token, { ...asking(900), signal: leave.signal });
  const third = own.messages(token, asking(900));
  leave.abort();
  await expect(second).rejects.toThrow();
  expect(provider.held).toHaveLength(1);
  // What fails has used nothing.
  provider.answer(500);
  expect((await first).status).toBe(500);
  await provider.arrived();
  expect(provider.held).toHaveLength(1);
  provider.answer();
  expect((await third).status).toBe(200);
  expect(await own.models.usage.session('ses_ada')).toMatchObject({ calls: 1, output: 100 });
});

/** A gateway whose storage takes no usage while its disk is full. */
async function crammed(settings: Partial<ServerConfig['gateway']> = {}) {
  const asked: string[] = [];
  const { url } = await provide(async (request, response) => {
    asked.push(Buffer.concat(await request.toArray()).toString());
    response.writeHead(200, { 'content-type': 'application/json' }).end(message('hi', USED));
  });
  const { documents } = await openStorage();
  const disk = { isFull: true };
  const put = documents.put.bind(documents);
  vi.spyOn(documents, 'put').mockImplementation(async (collection, ...rest) => {
    if (disk.isFull && collection === 'model-usage') throw new CellaError('STORAGE_FAILED', 'The disk is full.');
    return await put(collection, ...rest);
  });
  const told: string[] = [];
  const log = pino({ level: 'error' }, { write: (line: string) => void told.push(line) });
  const own = await Gateway.open({ documents, log, settings: { providers: at(url), ...settings } });
  const person = await own.person('ada', KEY);
  const token = await person.token();
  const ask = () =>
    own.messages(token, asking(200)).then(
      ({ status }) => status,
      () => 'cut off',
    );
  const statuses = async (calls: number) => {
    const seen: (number | string)[] = [];
    for (let call = 0; call < calls; call++) seen.push(await ask());
    return seen;
  };
  return { asked, disk, documents, own, statuses, told, userId: person.principal.userId };
}

it('allow no call while usage cannot be stored, and store it all later', async () => {
  const { asked, disk, own, statuses, userId } = await crammed({ sessionTokens: 1000 });
  const refused = errorCodes.STORAGE_FAILED.http;
  expect(await statuses(5)).toEqual(['cut off', refused, refused, refused, refused]);
  expect(asked).toHaveLength(1);
  disk.isFull = false;
  expect(await statuses(5)).toEqual([200, 200, 200, 200, 429]);
  expect(await own.models.usage.session('ses_ada')).toMatchObject({ calls: 5, input: 500, output: 500 });
  expect(await own.models.usage.today(userId)).toMatchObject({ calls: 5, input: 500, output: 500 });
});

it('report no daily usage of a user while some of it cannot be stored', async () => {
  const { disk, own, statuses, userId } = await crammed();
  expect(await statuses(2)).toEqual(['cut off', 'cut off']);
  await expect(own.models.usage.user(userId)).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
  expect(await own.models.usage.user('bob')).toEqual([]);
  disk.isFull = false;
  expect(await own.models.usage.user(userId)).toMatchObject([{ calls: 2, input: 200, output: 200 }]);
});

it('store the rest at shutdown, and log what cannot be stored even then', async () => {
  const { disk, documents, own, statuses, told, userId } = await crammed();
  expect(await statuses(1)).toEqual(['cut off']);
  told.length = 0;
  await own.models[Symbol.asyncDispose]();
  expect(told.map((line) => JSON.parse(line))).toEqual([
    expect.objectContaining({ usageOf: 'session/ses_ada', calls: 1, input: 100, output: 100 }),
    expect.objectContaining({ usageOf: expect.stringContaining(`user/${userId}/`), calls: 1, input: 100, output: 100 }),
  ]);
  disk.isFull = false;
  await own.close();
  const after = new UsageLedger(documents);
  expect(await after.session('ses_ada')).toMatchObject({ calls: 1, input: 100, output: 100 });
  expect(await after.user(userId)).toMatchObject([{ calls: 1, input: 100, output: 100 }]);
});

it.each([
  ['previous_response_id', '/openai/v1/responses', { model: 'gpt-5', previous_response_id: 'resp_1', input: 'x' }],
  ['conversation', '/openai/v1/responses', { model: 'gpt-5', conversation: { id: 'conv_1' }, input: 'x' }],
  ['cached_content', '/gemini/v1beta/models/m:generateContent', { cached_content: 'cachedContents/1', contents: [] }],
])('allow no call that refers to %s: its cost is unknown', async (name, path, body) => {
  const asked: string[] = [];
  const { url } = await provide(async (request, response) => {
    asked.push(Buffer.concat(await request.toArray()).toString());
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(path.startsWith('/gemini') ? '{"usageMetadata":{}}' : '{"object":"response"}');
  });
  for (const [budget, calls] of [[{ sessionTokens: 1000 }, 0] as const, [{}, 1] as const]) {
    const own = await Gateway.open({ settings: { providers: at(url), ...budget }, expected: { hasNetwork: true } });
    const headers = { authorization: `Bearer ${await (await own.person('ada', KEY)).token()}` };
    const { status, text } = await own.ask(path, { headers, body });
    expect([status, asked.length]).toEqual([calls === 0 ? 400 : 200, calls]);
    if (calls === 0) expect(text).toContain(name);
    // One that names nothing there is like any other.
    const { status: well } = await own.ask(path, { headers, body: { ...body, [name]: null } });
    expect(well).toBe(200);
    asked.length = 0;
  }
});
