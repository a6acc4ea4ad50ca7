/** Keys of model providers: encrypted for one user and one provider, never shown again, and never anybody else's. */

import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { type AccessControl, openAccess } from '../../../src/server/access/access-control.ts';
import type { Principal } from '../../../src/server/access/authorization.ts';
import { type CredentialOptions, CredentialStore } from '../../../src/server/credentials/credential-store.ts';
import { FileStorage } from '../../../src/storage/file/file-storage.ts';
import { newUser } from '../../contract/access/samples.ts';
import { failureOf } from '../../contract/storage/samples.ts';
import { Cella } from '../../support/cli/command.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { TestServer } from '../../support/servers/server.ts';

const KEY = 'sk-ant-CANARY-0123456789';
const base64 = (bytes = 32) => randomBytes(bytes).toString('base64');

interface Place {
  readonly access: AccessControl;
  readonly storage: FileStorage;
  readonly dataDir: string;
  readonly ada: Principal;
  readonly bob: Principal;
  again(options?: Partial<CredentialOptions>): CredentialStore;
}

async function place(): Promise<Place> {
  const dataDir = await scratchFolder();
  const storage = await FileStorage.open(dataDir);
  const access = await openAccess({ storage, dataDir });
  const [ada, bob] = [(await newUser(access, 'ada')).principal, (await newUser(access, 'bob')).principal];
  const parts = { documents: storage.documents, users: access.users, dataDir };
  return { access, storage, dataDir, ada, bob, again: (options) => new CredentialStore({ ...parts, ...options }) };
}

const keyFile = ({ dataDir }: Place) => join(dataDir, 'master-key');
const filesWith = (dataDir: string, text: string): string[] =>
  readdirSync(dataDir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .filter((path) => readFileSync(path).includes(text));

describe('a credential', () => {
  it('is the one that its user has set, also after a restart, and nothing is stored in clear text', async () => {
    const here = await place();
    const info = await here.again().set(here.ada, 'anthropic', KEY);
    expect(await here.again().reveal(here.ada.userId, 'anthropic')).toBe(KEY);
    expect(info).toMatchObject({ provider: 'anthropic', userName: 'ada' });
    expect(JSON.stringify([info, await here.again().list(here.ada)])).not.toContain(KEY.slice(-4));
    expect(filesWith(here.dataDir, KEY)).toEqual([]);
    const { documents } = await here.storage.documents.list('credentials');
    expect(JSON.stringify(documents)).not.toContain(KEY);
  });

  it('that is missing is reported, and never another user’s is used: a missing key was an empty string', async () => {
    const here = await place();
    const credentials = here.again();
    await credentials.set(here.ada, 'anthropic', KEY);
    await credentials.set(here.access.localAdmin(), 'anthropic', KEY);
    for (const provider of ['anthropic', 'openai'] as const) {
      const error = await failureOf(credentials.reveal(here.bob.userId, provider));
      expect(error).toMatchObject({ code: 'CREDENTIAL_MISSING', details: { provider } });
      expect(error.advice).toContain(`cella credentials set ${provider}`);
    }
    for (const value of ['', '   ', 'short', 'has a blank', 'line\nbreak', 'é'.repeat(10)]) {
      expect((await failureOf(credentials.set(here.ada, 'openai', value))).code).toBe('INVALID_REQUEST');
    }
  });

  it('cannot be decrypted for another user or provider: a failed decrypt fell through to the shared key', async () => {
    const here = await place();
    const credentials = here.again();
    const [ada, bob] = [here.ada.userId, here.bob.userId];
    await credentials.set(here.ada, 'anthropic', KEY);
    await credentials.set(here.bob, 'anthropic', 'sk-ant-of-bob-123');
    const { documents } = here.storage;
    const stolen = (await documents.get('credentials', `${ada}/anthropic`))?.value as { sealed: { box: string } };
    const put = (id: string, value: object) => documents.put('credentials', id, value);
    await put(`${bob}/anthropic`, { ...stolen, userId: bob });
    await put(`${ada}/openai`, { ...stolen, provider: 'openai' });
    const cut = { ...stolen.sealed, box: stolen.sealed.box.slice(0, 8) };
    await put(`${ada}/gemini`, { ...stolen, provider: 'gemini', sealed: cut });
    for (const [user, provider] of [
      [bob, 'anthropic'],
      [ada, 'openai'],
      [ada, 'gemini'],
    ] as const) {
      const error = await failureOf(credentials.reveal(user, provider));
      expect(error.code).toBe('CREDENTIAL_UNREADABLE');
      expect(error.cause).toBeUndefined();
    }
    expect(await credentials.reveal(ada, 'anthropic')).toBe(KEY);
  });

  it('belongs to a user, can be set by an admin, and is deleted with the user', async () => {
    const here = await place();
    const credentials = here.again();
    const admin = here.access.localAdmin();
    expect((await failureOf(credentials.set(here.bob, 'openai', KEY, 'ada'))).code).toBe('FORBIDDEN');
    expect((await failureOf(credentials.list(here.bob, 'ada'))).code).toBe('FORBIDDEN');
    await credentials.set(admin, 'openai', KEY, 'ada');
    expect((await credentials.list(here.ada)).map(({ provider }) => provider)).toEqual(['openai']);
    expect(await credentials.list(admin)).toEqual([]);
    await credentials.forgetUser(here.ada.userId);
    expect((await failureOf(credentials.delete(here.ada, 'openai'))).code).toBe('NOT_FOUND');
    const view = await here.access.tokens.create(here.ada, { name: 'view', scopes: ['view'] });
    const viewer = await here.access.authenticate(view.token);
    expect((await failureOf(credentials.set(viewer, 'openai', KEY))).code).toBe('FORBIDDEN');
  });
});

describe('the master key', () => {
  it('is created once, readable only for its user, even by many callers at once', async () => {
    const here = await place();
    const umask = process.umask(0);
    const many = Array.from({ length: 8 }, () => here.again());
    await Promise.all(many.map((each, index) => each.set(index % 2 ? here.ada : here.bob, 'openai', KEY)));
    process.umask(umask);
    expect((statSync(keyFile(here)).mode & 0o7777).toString(8)).toBe('600');
    for (const each of many) expect(await each.reveal(here.ada.userId, 'openai')).toBe(KEY);
    expect(await here.again().reveal(here.bob.userId, 'openai')).toBe(KEY);
    expect(readdirSync(here.dataDir).filter((name) => name.startsWith('master-key'))).toEqual(['master-key']);
  });

  it.each<[string, (path: string) => void]>([
    ['can be read by others', (path) => chmodSync(path, 0o640)],
    [
      'is a link',
      (path) => {
        renameSync(path, `${path}-kept`);
        symlinkSync(`${path}-kept`, path);
      },
    ],
    ['is empty', (path) => writeFileSync(path, '')],
    ['is no key', (path) => writeFileSync(path, 'hello\n')],
    ['is a pipe', (path) => void execFileSync('sh', ['-c', 'rm "$1" && mkfifo -m 600 "$1"', 'sh', path])],
  ])('that %s is refused with what to do, and never made anew over what it has encrypted', async (_name, spoil) => {
    const here = await place();
    await here.again().set(here.ada, 'anthropic', KEY);
    spoil(keyFile(here));
    const read = () => here.again().reveal(here.ada.userId, 'anthropic');
    const write = () => here.again().set(here.ada, 'openai', KEY);
    for (const attempt of [read, write]) {
      const error = await failureOf(attempt());
      expect(error).toMatchObject({ code: 'CREDENTIAL_UNREADABLE', message: expect.stringContaining('master-key') });
    }
  });

  it('that was lost causes a typed error, and setting the credential again fixes it', async () => {
    const here = await place();
    await here.again().set(here.ada, 'anthropic', KEY);
    rmSync(keyFile(here));
    const error = await failureOf(here.again().reveal(here.ada.userId, 'anthropic'));
    expect(error).toMatchObject({
      code: 'CREDENTIAL_UNREADABLE',
      message: expect.stringContaining('another master key'),
    });
    await here.again().set(here.ada, 'anthropic', `${KEY}2`);
    expect(await here.again().reveal(here.ada.userId, 'anthropic')).toBe(`${KEY}2`);
  });

  it('in the variable replaces the file, and an invalid one is refused without showing it', async () => {
    const here = await place();
    const masterKey = { current: base64() };
    await here.again({ masterKey }).set(here.ada, 'anthropic', KEY);
    expect(readdirSync(here.dataDir)).not.toContain('master-key');
    expect(await here.again({ masterKey }).reveal(here.ada.userId, 'anthropic')).toBe(KEY);
    const hex = Buffer.from(masterKey.current, 'base64').toString('hex');
    expect(await here.again({ masterKey: { current: hex } }).reveal(here.ada.userId, 'anthropic')).toBe(KEY);
    const other = here.again({ masterKey: { current: base64() } });
    expect((await failureOf(other.reveal(here.ada.userId, 'anthropic'))).code).toBe('CREDENTIAL_UNREADABLE');
    for (const current of ['secret', base64(16), base64(33)]) {
      const error = await failureOf((async () => here.again({ masterKey: { current } }))());
      expect(error.code).toBe('INVALID_OPTIONS');
      expect(JSON.stringify(error)).not.toContain(current);
    }
  });
});

describe('a rotation', () => {
  it('replaces the key in the file, encrypts everything again, and reverts nothing that is set meanwhile', async () => {
    const here = await place();
    const credentials = here.again();
    await credentials.set(here.ada, 'anthropic', KEY);
    const before = readFileSync(keyFile(here), 'utf8');
    await credentials.set(here.bob, 'openai', KEY);
    expect((await failureOf(credentials.rotate(here.ada))).code).toBe('FORBIDDEN');
    const admin = here.access.localAdmin();
    const [rotation] = await Promise.all([credentials.rotate(admin), credentials.set(here.bob, 'gemini', KEY)]);
    expect(rotation).toEqual({ rotated: 2, left: [] });
    const after = readFileSync(keyFile(here), 'utf8');
    expect(after).not.toContain(before.trim());
    expect(after.trim().split('\n')).toHaveLength(1);
    for (const each of [credentials, here.again()]) {
      expect(await each.reveal(here.ada.userId, 'anthropic')).toBe(KEY);
      expect(await each.reveal(here.bob.userId, 'gemini')).toBe(KEY);
    }
  });

  it('changes from the old key to the given one', async () => {
    const here = await place();
    const [old, current] = [base64(), base64()];
    await here.again({ masterKey: { current: old } }).set(here.ada, 'anthropic', KEY);
    const changing = here.again({ masterKey: { current, old } });
    expect(await changing.reveal(here.ada.userId, 'anthropic')).toBe(KEY);
    expect(await changing.rotate(here.access.localAdmin())).toEqual({ rotated: 1, left: [] });
    expect(await here.again({ masterKey: { current } }).reveal(here.ada.userId, 'anthropic')).toBe(KEY);
  });

  it('reports credentials that no key decrypts, and keeps them and the older keys', async () => {
    const here = await place();
    await here.again({ masterKey: { current: base64() } }).set(here.bob, 'openai', KEY);
    const credentials = here.again();
    await credentials.set(here.ada, 'anthropic', KEY);
    const { rotated, left } = await credentials.rotate(here.access.localAdmin());
    expect([rotated, left]).toEqual([1, [{ userId: here.bob.userId, provider: 'openai' }]]);
    expect(await here.again().reveal(here.ada.userId, 'anthropic')).toBe(KEY);
    expect(readFileSync(keyFile(here), 'utf8').trim().split('\n')).toHaveLength(2);
  });
});

describe('over REST and from the command line', () => {
  let server: TestServer;
  let cella: Cella;
  beforeAll(async () => {
    const logFile = join(await scratchFolder(), 'log');
    server = await TestServer.start({ logLevel: 'debug', logFile });
    cella = new Cella();
    return () => {
      cella[Symbol.dispose]();
      expect(readFileSync(logFile, 'utf8')).not.toContain('CANARY');
    };
  });

  it('users set, list and delete their own; no answer, audit entry or error has a part of the key', async () => {
    const token = await server.user('ada', 'member');
    const told: string[] = [];
    const call = async (what: string, options: { body?: unknown; token?: string } = {}) => {
      const answer = await server.call(what, { token, ...options });
      told.push(answer.text, JSON.stringify([...answer.headers]));
      return answer;
    };
    expect((await call('PUT /v1/credentials/anthropic', { body: { value: KEY } })).status).toBe(200);
    expect((await call('PUT /v1/credentials/anthropic', { body: { value: `${KEY} ` } })).status).toBe(400);
    expect((await call('PUT /v1/credentials/evil', { body: { value: KEY } })).status).toBe(400);
    expect((await call('PUT /v1/credentials/openai', { body: { value: KEY, user: 'local' } })).status).toBe(403);
    expect((await call('GET /v1/credentials?user=local')).status).toBe(403);
    expect((await call('POST /v1/credentials/rotate')).status).toBe(403);
    const { json } = await call('GET /v1/credentials');
    expect(json.credentials).toMatchObject([{ provider: 'anthropic', userName: 'ada' }]);
    expect((await call('POST /v1/credentials/rotate', { token: server.token })).json).toEqual({ rotated: 1, left: [] });
    expect((await call('GET /v1/audit', { token: server.token })).text).toContain('credential.set');
    expect((await call('DELETE /v1/credentials/anthropic')).status).toBe(204);
    expect((await call('DELETE /v1/credentials/anthropic')).status).toBe(404);
    expect(told.join('\n')).not.toContain('CANARY');
    expect(filesWith(server.facts.dataDir, 'CANARY')).toEqual([]);
  });

  it('the key is read from stdin or a hidden prompt, and never from an argument', async () => {
    const env = { CELLA_URL: server.url, CELLA_TOKEN: server.token };
    const run = async (words: string[], options: { input?: string; terminal?: boolean } = {}) => {
      const started = cella.start(['credentials', ...words], { env, input: '', ...options });
      return { code: await started.ended, out: started.out, err: started.err };
    };
    const set = await run(['set', 'anthropic'], { input: `${KEY}\n` });
    expect(set).toMatchObject({ code: 0, out: expect.stringContaining('anthropic') });
    const list = await run(['list', '--json']);
    expect(JSON.parse(list.out)).toMatchObject({ credentials: [{ provider: 'anthropic', userName: 'local' }] });
    expect(await run(['set', 'openai'])).toMatchObject({ code: 2, err: expect.stringContaining('no key on stdin') });
    expect((await run(['set', 'openai', KEY])).code).toBe(2);
    const typed = cella.start(['credentials', 'set', 'gemini'], { env, terminal: true });
    await typed.says('Key for gemini: ');
    typed.type(`${KEY}\r`);
    expect(await typed.ended).toBe(0);
    expect(set.out + set.err + list.out + typed.out).not.toContain('CANARY');
    const rows = await server.call('GET /v1/credentials');
    expect(rows.json.credentials).toMatchObject([{ provider: 'anthropic' }, { provider: 'gemini' }]);
  });
});
