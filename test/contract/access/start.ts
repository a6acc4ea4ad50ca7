/** The first start and those after it: the admin's token in its file, and no secret anywhere else. */

import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { failureOf, type OpenStorage } from '../storage/samples.ts';
import { accessPlace, newUser } from './samples.ts';

const tokenIn = (dataDir: string): string => readFileSync(join(dataDir, 'admin-token'), 'utf8').trim();
const modeOf = (path: string): string => (lstatSync(path).mode & 0o7777).toString(8);

export function startContract(open: OpenStorage): void {
  it('creates an admin and its token, readable only for its user, whatever the umask', async () => {
    const { dataDir, again } = accessPlace(open);
    const umask = process.umask(0);
    const { access } = await again().finally(() => process.umask(umask));
    expect(access.adminTokenPath).toBe(join(dataDir, 'admin-token'));
    expect(modeOf(access.adminTokenPath)).toBe('600');
    expect(await access.authenticate(tokenIn(dataDir))).toMatchObject({
      userId: 'local',
      role: 'admin',
      scopes: ['view', 'use', 'manage', 'tokens', 'admin'],
    });
  });

  it('uses an existing token again, and does not write the file', async () => {
    const { dataDir, again } = accessPlace(open);
    await again();
    const before = [tokenIn(dataDir), statSync(join(dataDir, 'admin-token')).ino];
    const { access } = await again();
    expect([tokenIn(dataDir), statSync(join(dataDir, 'admin-token')).ino]).toEqual(before);
    expect(await access.tokens.list(access.localAdmin())).toHaveLength(1);
  });

  it.each<[string, (path: string) => void]>([
    ['missing', (path) => rmSync(path)],
    ['empty', (path) => truncateSync(path)],
    ['cut', (path) => truncateSync(path, 30)],
    ['somebody’s text', (path) => writeFileSync(path, 'hello')],
    ['endless', (path) => truncateSync(path, 1_000_000_000)],
    ['a pipe', (path) => void execFileSync('sh', ['-c', 'rm "$1" && mkfifo "$1"', 'sh', path])],
    ['a dangling link', (path) => void execFileSync('ln', ['-sfn', '/nowhere/at/all', path])],
  ])('creates another one if the file is %s', async (_name, spoil) => {
    const { dataDir, again } = accessPlace(open);
    await again();
    spoil(join(dataDir, 'admin-token'));
    const { access } = await again();
    expect((await access.authenticate(tokenIn(dataDir))).userId).toBe('local');
    expect(modeOf(access.adminTokenPath)).toBe('600');
    expect(lstatSync(access.adminTokenPath).isFile()).toBe(true);
  });

  it('follows no link when it reads or writes', async () => {
    const { dataDir, again } = accessPlace(open);
    await again();
    const [path, elsewhere] = [join(dataDir, 'admin-token'), join(dataDir, 'elsewhere')];
    const old = tokenIn(dataDir);
    writeFileSync(elsewhere, old, { mode: 0o600 });
    rmSync(path);
    symlinkSync(elsewhere, path);
    symlinkSync(elsewhere, join(dataDir, '.admin-token.new'));
    await again();
    expect(lstatSync(path).isSymbolicLink()).toBe(false);
    expect(readFileSync(elsewhere, 'utf8')).toBe(old);
    expect(tokenIn(dataDir)).not.toBe(old);
  });

  it('revokes a token that others could have read', async () => {
    const { dataDir, again } = accessPlace(open);
    await again();
    const old = tokenIn(dataDir);
    chmodSync(join(dataDir, 'admin-token'), 0o644);
    const { access } = await again();
    expect((await failureOf(access.authenticate(old))).code).toBe('UNAUTHENTICATED');
    expect((await access.authenticate(tokenIn(dataDir))).userId).toBe('local');
    expect(modeOf(access.adminTokenPath)).toBe('600');
  });

  it('creates another one if the token in the file belongs to a user who is not an admin', async () => {
    const { dataDir, again } = accessPlace(open);
    const { access } = await again();
    const { token } = await newUser(access, 'ada', 'admin');
    writeFileSync(join(dataDir, 'admin-token'), token);
    const other = (await again()).access;
    expect((await other.authenticate(tokenIn(dataDir))).userId).toBe('local');
  });

  it('fails with the path and the reason if the file cannot be written', async () => {
    const { dataDir, again } = accessPlace(open);
    mkdirSync(join(dataDir, 'admin-token', 'folder'), { recursive: true });
    const error = await failureOf(again());
    expect(error).toMatchObject({ code: 'STORAGE_FAILED', message: expect.stringContaining('admin-token') });
  });

  it('keeps everything after a restart', async () => {
    const { again } = accessPlace(open);
    const first = (await again()).access;
    const { token, principal } = await newUser(first, 'ada');
    const { cookie } = await first.logins.open(principal);
    const { code } = await first.logins.createCode(principal);
    await first.close();
    const second = (await again()).access;
    expect(await second.authenticate(token)).toEqual(principal);
    expect((await second.logins.authenticate(cookie)).userId).toBe(principal.userId);
    expect((await second.logins.redeem(code)).principal.userId).toBe(principal.userId);
  });

  it('leaves no temporary file', async () => {
    const { dataDir, again } = accessPlace(open);
    await again();
    expect(existsSync(join(dataDir, '.admin-token.new'))).toBe(false);
  });
}
