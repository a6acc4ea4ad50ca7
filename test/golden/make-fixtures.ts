/**
 * How the files in test/golden/fixtures were made: a server with one of everything in it, on files and on Redis, ended
 * in good order and packed. Made again, for the formats of a later version, with
 * `CELLA_MAKE_FIXTURES=1 npm test -- test/golden/fixtures`.
 * Keep the old ones too, under another name, for as long as data of that version must open.
 */

import { execFile } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gunzipSync, gzipSync } from 'node:zlib';
import { createClient, RESP_TYPES } from '@redis/client';
import { RedisStorage } from '../../src/index.ts';
import { scratchFolder } from '../support/kernels/session.ts';
import type { RedisServer } from '../support/servers/redis.ts';
import { type Facts, fillWorld, startWorld, type WorldOptions } from './world.ts';

const run = promisify(execFile);
export const PREFIX = 'golden';

export const fixture = (name: string): string => fileURLToPath(new URL(`fixtures/${name}`, import.meta.url));

type Parts = Pick<WorldOptions, 'runner' | 'programs' | 'wheels'>;

export async function makeFileFixture(parts: Parts): Promise<void> {
  const folder = await scratchFolder();
  await packWorld('files.tar.gz', folder, async (dataDir) => {
    await using server = await startWorld({ ...parts, dataDir });
    return await fillWorld(server);
  });
}

export async function makeRedisFixture(parts: Parts, redis: RedisServer): Promise<void> {
  const folder = await scratchFolder();
  await packWorld('redis.tar.gz', folder, async (dataDir) => {
    await using storage = await RedisStorage.open(redis.url, { prefix: PREFIX });
    await using server = await startWorld({ ...parts, dataDir, storage });
    return await fillWorld(server);
  });
  await writeFile(fixture('redis.jsonl.gz'), gzipSync(await dumpRedis(redis)));
}

async function packWorld(name: string, folder: string, fill: (dataDir: string) => Promise<Facts>): Promise<void> {
  const dataDir = join(folder, 'data');
  await mkdir(dataDir, { mode: 0o711 });
  const facts = await fill(dataDir);
  await writeFile(join(folder, 'facts.json'), `${JSON.stringify(facts, undefined, 2)}\n`);
  await mkdir(fixture(''), { recursive: true });
  await run('tar', ['-czf', fixture(name), '--sort=name', '--numeric-owner', '-C', folder, 'facts.json', 'data']);
}

/** Gives the data folder, in a place of its own. */
export async function unpackWorld(name: string): Promise<{ dataDir: string; facts: Facts }> {
  const folder = await scratchFolder();
  await run('tar', ['-xpzf', fixture(name), '-C', folder]);
  const facts: Facts = JSON.parse(await readFile(join(folder, 'facts.json'), 'utf8'));
  return { dataDir: join(folder, 'data'), facts };
}

/** One line for each key: its name, and what DUMP gives of it. */
async function dumpRedis(redis: RedisServer): Promise<string> {
  await using client = await bytesOf(redis);
  const keys = (await client.own.keys('*')).map(String).sort();
  const lines = keys.map(async (key) => {
    const payload = await client.own.dump(key);
    return `${JSON.stringify({ key, payload: Buffer.from(payload ?? '').toString('base64') })}\n`;
  });
  return (await Promise.all(lines)).join('');
}

export async function restoreRedis(redis: RedisServer): Promise<void> {
  await using client = await bytesOf(redis);
  const lines = gunzipSync(await readFile(fixture('redis.jsonl.gz')))
    .toString()
    .trim()
    .split('\n');
  for (const line of lines) {
    const { key, payload }: { key: string; payload: string } = JSON.parse(line);
    await client.own.sendCommand(['RESTORE', key, '0', Buffer.from(payload, 'base64')]);
  }
}

async function bytesOf({ url }: RedisServer) {
  const own = createClient({ url }).withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  await own.connect();
  return { own, [Symbol.asyncDispose]: () => own.close() };
}
