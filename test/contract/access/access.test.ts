import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@redis/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CellaError } from '../../../src/protocol/errors.ts';
import { openAccess } from '../../../src/server/access/access-control.ts';
import type { Storage } from '../../../src/storage/contract.ts';
import { FileStorage } from '../../../src/storage/file/file-storage.ts';
import { RedisStorage } from '../../../src/storage/redis/redis-storage.ts';
import { RedisServer } from '../../support/servers/redis.ts';
import { failureOf } from '../storage/samples.ts';
import { accessContract } from './access.ts';
import { newUser } from './samples.ts';

const folder = mkdtempSync(join(tmpdir(), 'cella-access-'));
let redis: RedisServer;
beforeAll(async () => {
  redis = await RedisServer.start();
});
afterAll(async () => {
  await redis?.remove();
  rmSync(folder, { recursive: true, force: true });
});

accessContract('file', (place, options) => FileStorage.open(join(folder, place), options));
accessContract('redis', (place, options) => RedisStorage.open(redis.url, { prefix: place, ...options }));

/** Uses every part once; gives all secrets, and all that was told about them. */
async function useEverything(storage: Storage, dataDir: string): Promise<{ secrets: string[]; told: string }> {
  await using access = await openAccess({ storage, dataDir });
  const { token, principal } = await newUser(access, 'ada');
  const login = await access.logins.open(principal);
  const { code } = await access.logins.createCode(principal);
  const revoked = await access.tokens.create(principal, { name: 'gone' });
  await access.tokens.revoke(principal, revoked.info.id);
  const used = await access.logins.createCode(principal);
  const second = await access.logins.redeem(used.code);
  await access.logins.logout(second.cookie);
  await access.audit.append({ action: 'login', from: '::1', outcome: 'ok', userId: principal.userId });
  const errors = [
    await failureOf(access.authenticate(revoked.token)),
    await failureOf(access.authenticate(`${token}x`)),
    await failureOf(access.logins.redeem(used.code)),
    await failureOf(access.logins.authenticate(second.cookie)),
    await failureOf(access.tokens.revoke(principal, token)),
  ];
  const told = [
    ...errors.map((error) => `${JSON.stringify(error)} ${error.stack}`),
    JSON.stringify(await access.tokens.list(principal)),
    JSON.stringify((await access.audit.page(access.localAdmin())).entries),
    JSON.stringify([principal, login.principal]),
  ].join('\n');
  const cookies = [login, second].flatMap(({ cookie, csrf }) => [cookie, csrf]);
  const tokens = [token, revoked.token, readFileSync(join(dataDir, 'admin-token'), 'utf8').trim()];
  return { secrets: [...tokens.map((text) => text.slice(-43)), ...cookies, code, used.code], told };
}

/** In any spelling in which bytes are commonly written. */
function leaksIn(bytes: Buffer, secrets: readonly string[]): string[] {
  const spellings = (secret: string) => {
    const raw = Buffer.from(secret, 'base64url');
    return [secret, raw, raw.toString('hex'), raw.toString('base64')];
  };
  return secrets.filter((secret) => spellings(secret).some((spelling) => bytes.includes(spelling)));
}

describe('secrets', () => {
  it('are in no file of the data folder except the admin’s own, and in no response', async () => {
    const dataDir = mkdtempSync(join(folder, 'secrets-'));
    const storage = await FileStorage.open(dataDir);
    const { secrets, told } = await useEverything(storage, dataDir);
    expect(leaksIn(Buffer.from(told), secrets)).toEqual([]);
    const scan = () => {
      const entries = readdirSync(dataDir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
      return entries
        .map(({ parentPath, name }) => join(parentPath, name))
        .filter((path) => leaksIn(readFileSync(path), secrets).length > 0);
    };
    await storage.close();
    expect(scan()).toEqual([join(dataDir, 'admin-token')]);
  });

  it('are in no key or value of Redis', async () => {
    const dataDir = mkdtempSync(join(folder, 'secrets-'));
    await using storage = await RedisStorage.open(redis.url, { prefix: 'secrets' });
    const { secrets, told } = await useEverything(storage, dataDir);
    expect(leaksIn(Buffer.from(told), secrets)).toEqual([]);
    const client = createClient({ url: redis.url });
    await client.connect();
    const keys = await client.keys('secrets|*');
    expect(keys.length).toBeGreaterThan(5);
    for (const key of keys) {
      const kind = await client.type(key);
      const values =
        kind === 'hash' ? await client.hGetAll(key) : kind === 'zset' ? await client.zRange(key, 0, -1) : key;
      expect(leaksIn(Buffer.from(key + JSON.stringify(values)), secrets)).toEqual([]);
    }
    client.destroy();
  });
});

describe('a storage that fails', () => {
  it('lets nobody log in, and says so', async () => {
    const server = await RedisServer.start();
    try {
      const dataDir = mkdtempSync(join(folder, 'gone-'));
      await using storage = await RedisStorage.open(server.url);
      await using access = await openAccess({ storage, dataDir });
      const { token, principal } = await newUser(access, 'ada');
      const { cookie } = await access.logins.open(principal);
      await server.stop();
      for (const attempt of [access.authenticate(token), access.logins.authenticate(cookie)]) {
        expect((await failureOf(attempt)).code).toBe('STORAGE_UNREACHABLE');
      }
      await server.restart();
      expect((await until(() => access.authenticate(token))).userId).toBe(principal.userId);
    } finally {
      await server.remove();
    }
  });
});

async function until<T>(work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof CellaError && error.code === 'STORAGE_UNREACHABLE')) throw error;
    }
  }
}
