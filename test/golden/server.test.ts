/** What a server with everything in it shows to its clients, and what it leaves on the disk and in Redis. */

import { lstat, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Client as McpClient, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { createClient } from '@redis/client';
import { Registry } from 'prom-client';
import { beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { connect } from '../../src/client/index.ts';
import { RedisStorage } from '../../src/index.ts';
import { runHere } from '../support/cli/cli-here.ts';
import { scratchFolder } from '../support/kernels/session.ts';
import { makeWheel } from '../support/packages/wheels.ts';
import { hostileRunner, namedPrograms } from '../support/servers/agent-server.ts';
import { RedisServer } from '../support/servers/redis.ts';
import type { TestServer } from '../support/servers/server.ts';
import { allHelp } from './cli-help.ts';
import { expectGolden, shapeOf } from './golden.ts';
import { jsonCommands, notRun } from './json-outputs.ts';
import { type Facts, fillWorld, startWorld, type WorldOptions } from './world.ts';

let parts: Pick<WorldOptions, 'runner' | 'programs' | 'wheels'>;
let cella: TestServer;
let facts: Facts;
/** The layout of its data folder while it ran, and after its end. */
let layout: { readonly live: readonly string[]; readonly after: readonly string[] };
let dataDir: string;
/** Every metric that is made from here on: those without a value have no labels in the text that the server gives. */
const metrics: Metric[] = [];
const { registerMetric } = Registry.prototype;
Registry.prototype.registerMetric = function (metric) {
  metrics.push(metric as unknown as Metric);
  registerMetric.call(this, metric);
};

beforeAll(async () => {
  const [runner, programs, folder] = await Promise.all([hostileRunner(), namedPrograms(), scratchFolder()]);
  parts = { runner, programs, wheels: join(folder, 'wheels') };
  await makeWheel(parts.wheels, 'tiny-thing');
  dataDir = await scratchFolder();
  {
    await using filled = await startWorld({ ...parts, dataDir });
    facts = await fillWorld(filled);
    layout = { live: await layoutOf(dataDir), after: [] };
  }
  layout = { ...layout, after: await layoutOf(dataDir) };
});

describe('stored data', () => {
  test('has the same place in the data folder', () => expectGolden('data-folder.txt', beforeAndAfter(layout)));

  test('has the same tables, and documents of the same shape', async () => {
    await expectGolden('sqlite.json', storedIn(join(dataDir, 'cella.db')));
    await expectGolden('checkpoint-manifest.json', await manifestsIn(join(dataDir, 'checkpoints')));
  });

  test('has the same keys in Redis', async () => {
    await using redis = await RedisServer.start();
    await using storage = await RedisStorage.open(redis.url, { prefix: 'PREFIX' });
    const filled = await startWorld({ ...parts, storage });
    await fillWorld(filled);
    const keys = await keysOf(redis);
    await filled[Symbol.asyncDispose]();
    await expectGolden('redis-keys.txt', beforeAndAfter({ live: keys, after: await keysOf(redis) }));
  });
});

describe('a server', () => {
  beforeAll(async () => {
    cella = await startWorld({ ...parts, dataDir });
    // The first result lists restored variables; the ones to compare are plain.
    await cella.run(facts.session, '1');
  });

  test('describes the same API', async () => {
    await expectGolden('openapi.json', (await cella.call('GET /openapi.json')).json);
  });

  test('has the same metrics', async () => {
    const { text } = await cella.call('GET /metrics');
    const types = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = '', type]) => [name, type]));
    const rows = metrics.map(({ name, help, labelNames }) => [
      name,
      { help, labels: labelNames, type: types.get(name) },
    ]);
    await expectGolden('metrics.json', Object.fromEntries(rows));
  });

  test('offers the same MCP tools and resources', async () => {
    const client = new McpClient({ name: 'golden', version: '1' });
    const headers = { authorization: `Bearer ${cella.token}` };
    const url = new URL(`/v1/sessions/${facts.session}/mcp`, cella.url);
    await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
    const { tools } = await client.listTools();
    const { resourceTemplates } = await client.listResourceTemplates();
    const instructions = client.getInstructions();
    await client.close();
    await expectGolden('mcp.json', { instructions, tools, resourceTemplates });
  });

  test('sends frames of the same shape over the WebSocket', async () => {
    const sent = [
      { type: 'ping', id: 1 },
      { type: 'nonsense', id: 2 },
      { type: 'execute', id: 3, code: 'print("hi")\n[1]' },
    ];
    const frames = await framesOf(`/v1/sessions/${facts.session}/ws`, sent);
    await expectGolden('websocket-sent.json', shapeOfLines(frames));
  });

  test('offers programs the same members of client and session', async () => {
    await using client = await connect({ url: cella.url, token: cella.token });
    const session = await client.session(facts.session);
    const { sessions, users, tokens, credentials, permissionRules, profiles, server } = client;
    const { tools, skills, artifacts, deps, files } = session;
    const all = { client, sessions, users, tokens, credentials, permissionRules, profiles, server };
    const objects = { ...all, session, tools, skills, artifacts, deps, files };
    const members = Object.entries(objects).map(([name, object]) => [name, membersOf(object)]);
    await expectGolden('client-members.json', Object.fromEntries(members));
  });

  test('prints JSON of the same shape', async () => {
    const known = new Map([
      ['ID', facts.session],
      ['ELSEWHERE', await scratchFolder()],
    ]);
    const shapes: Record<string, unknown> = {};
    for (const [command, line, input] of jsonCommands) {
      const words = line.split(' ').map((word) => known.get(word) ?? word);
      const { code, out, err } = await runHere([...words, '--json'], dataDir, input === undefined ? {} : { input });
      expect([command, code, code === 0 ? '' : out + err]).toEqual([command, 0, '']);
      const values = parseJson(out);
      if (command === 'permissions rules create') known.set('RULE', String(values[0]?.id));
      if (command === 'tokens create') known.set('TOKEN', String(values[0]?.info?.id ?? values[0]?.id));
      shapes[command] = shapeOfLines(values);
    }
    const failed = await runHere(['users', 'show', 'nobody', '--json'], dataDir);
    shapes['a failure'] = [failed.code, ...parseJson(failed.out || failed.err).map(shapeOf)];
    await expectGolden('cli-json.json', shapes);
  });

  test('has no command with JSON that is not tested here', async () => {
    const pages = await allHelp();
    const printing = pages.filter(({ text }) => /^ {2}--json/m.test(text)).map(({ path }) => path);
    const told = [...jsonCommands.map(([command]) => command), ...Object.keys(notRun)];
    expect(printing.sort(), 'a line in jsonCommands or notRun of json-outputs.ts').toEqual(told.sort());
  });
});

function beforeAndAfter({ live, after }: typeof layout): string {
  const gone = live.filter((line) => !after.includes(line));
  return [...after, '', 'Only while a server runs:', ...gone, ''].join('\n');
}

interface Metric {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
}

type Line = { readonly type?: string; readonly id?: unknown; readonly info?: { readonly id?: unknown } };

/** Only some hosts can tell it. */
const withoutMemory = (key: string, value: unknown) => (key === 'memoryBytes' ? undefined : value);

/** One value, or one a line. */
function parseJson(out: string): Line[] {
  try {
    return [JSON.parse(out, withoutMemory)];
  } catch {
    const lines = out.trim().split('\n');
    return lines.map((line) => JSON.parse(line, withoutMemory));
  }
}

/** Lines are told by their `type`. */
function shapeOfLines(values: readonly Line[]): unknown {
  const [only] = values;
  if (values.length === 1) return shapeOf(only);
  const byType = Map.groupBy(values, ({ type }) => `a line: ${type}`);
  return Object.fromEntries([...byType].map(([type, lines]) => [type, (shapeOf(lines) as unknown[])[0]]));
}

/** All that come until the execution has its result and its reply. */
async function framesOf(path: string, sent: readonly object[]): Promise<Record<string, unknown>[]> {
  const url = new URL(path, cella.url.replace(/^http/, 'ws'));
  const socket = new WebSocket(url, { headers: { authorization: `Bearer ${cella.token}` } });
  const frames: Record<string, unknown>[] = [];
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  socket.on('open', () => sent.map((frame) => socket.send(JSON.stringify(frame))));
  socket.on('error', reject).on('close', (code) => reject(new Error(`it was closed with ${code}`)));
  socket.on('message', (data) => {
    frames.push(JSON.parse(String(data)));
    const reply = frames.find(({ type, id }) => type === 'reply' && id === 3);
    const results = frames.filter(({ type }) => type === 'result');
    if (reply && results.some(({ execution }) => JSON.stringify(reply).includes(String(execution)))) resolve();
  });
  await promise;
  socket.close();
  return frames;
}

function membersOf(object: object): string[] {
  const methods = new Set<string>();
  for (let at = Object.getPrototypeOf(object); at !== Object.prototype; at = Object.getPrototypeOf(at)) {
    for (const name of Object.getOwnPropertyNames(at)) if (name !== 'constructor') methods.add(name);
  }
  return [...methods, ...Object.keys(object)].sort();
}

/** What differs from one run to the next has a word in its place. */
function withPlaceholders(text: string): string {
  return text
    .replaceAll(/\b(ses|exe|trn|prm|rul|out|tok)_[0-9a-z]{16}\b/g, '$1_ID')
    .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'UUID')
    .replaceAll(/\bada([~-])[0-9a-z]{12}\b/g, 'ada$1ID')
    .replaceAll(/\b\d+-\d+-[0-9a-f]{32}-\d+-[0-9a-f]{12}\b/g, 'PROCESS')
    .replaceAll(/\bgateway-\w{6}\b/g, 'gateway-RANDOM')
    .replaceAll(/\bcp3\d+-\w+/g, 'PYTHON')
    .replaceAll(/\b[0-9a-f]{16,64}\b/g, 'HASH');
}

/** The mode of each file and folder, and its path. */
async function layoutOf(dataDir: string): Promise<string[]> {
  const paths = await readdir(dataDir, { recursive: true });
  const lines = paths.map(async (path) => {
    const found = await lstat(join(dataDir, path)).catch(() => undefined);
    if (!found) return [];
    const kind = found.isDirectory() ? '/' : found.isSocket() ? ' (socket)' : '';
    return [`${(found.mode & 0o777).toString(8).padStart(3, '0')} ${withPlaceholders(path)}${kind}`];
  });
  return [...new Set((await Promise.all(lines)).flat())].sort((a, b) => (a.slice(4) < b.slice(4) ? -1 : 1));
}

function storedIn(path: string): unknown {
  using database = new DatabaseSync(path, { readOnly: true });
  const rows = (query: string) => database.prepare(query).all() as Record<string, string>[];
  const schema = rows('SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type, name');
  const documents = Map.groupBy(rows('SELECT collection, document FROM documents'), ({ collection }) => collection);
  const shapes = [...documents].map(([collection, all]) => [
    withPlaceholders(String(collection)),
    shapeOfTexts(all, 'document'),
  ]);
  const entries = rows('SELECT collection, entry FROM document_fields ORDER BY 1, 2');
  return {
    version: rows('PRAGMA user_version')[0]?.user_version,
    schema: schema.map(({ type, name, sql }) => ({ type, name, sql })),
    documents: Object.fromEntries(shapes),
    indexed: [...new Set(entries.map(({ collection, entry }) => withPlaceholders(`${collection}: ${entry}`)))],
    records: shapeOfTexts(rows('SELECT record FROM records'), 'record'),
  };
}

function shapeOfTexts(rows: readonly Record<string, string>[], column: string): unknown {
  return (shapeOf(rows.map((row) => JSON.parse(row[column] ?? 'null'))) as unknown[])[0];
}

async function manifestsIn(folder: string): Promise<unknown> {
  const paths = (await readdir(folder, { recursive: true })).filter((path) => path.endsWith('manifest.json'));
  const texts = await Promise.all(paths.sort().map((path) => readFile(join(folder, path), 'utf8')));
  return (shapeOf(texts.map((text) => JSON.parse(text))) as unknown[])[0];
}

/** The type of each key, and its name. */
async function keysOf({ url }: RedisServer): Promise<string[]> {
  const client = createClient({ url });
  await client.connect();
  const keys = (await client.keys('*')).sort();
  const lines = await Promise.all(keys.map(async (key) => `${await client.type(key)} ${withPlaceholders(key)}`));
  await client.close();
  return [...new Set(lines)].sort();
}
