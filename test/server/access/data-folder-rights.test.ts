/** A server goes by what lies in its data folder: one that others may change is refused before it is opened. */

import { chmodSync, chownSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Server } from '../../../src/index.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { TestServer } from '../../support/servers/server.ts';

const isRoot = process.getuid?.() === 0;

describe('a data folder', () => {
  it.each([
    ['everybody', 0o757],
    ['its group', 0o770],
    ['everybody, with a sticky bit', 0o1777],
  ])('that %s can write to is refused, with advice', async (_who, mode) => {
    const dataDir = await scratchFolder();
    chmodSync(dataDir, mode);
    const refusal = { code: 'INVALID_OPTIONS', advice: `Run: chmod go-w ${dataDir}`, details: { path: dataDir } };
    await expect(TestServer.start({ dataDir })).rejects.toMatchObject(refusal);
    await expect(Server.open({ dataDir })).rejects.toMatchObject(refusal);
    expect(readdirSync(dataDir)).toEqual([]);
    chmodSync(dataDir, mode & 0o755);
    await using server = await TestServer.start({ dataDir });
    expect(server.facts.dataDir).toBe(dataDir);
  });

  it.runIf(isRoot)('that belongs to somebody else is refused', async () => {
    const dataDir = await scratchFolder();
    chownSync(dataDir, 65534, 65534);
    await expect(TestServer.start({ dataDir })).rejects.toMatchObject({
      code: 'INVALID_OPTIONS',
      message: expect.stringContaining('belongs to another user (65534)'),
      advice: expect.stringContaining('chown'),
    });
  });

  it('whose programs others can replace is refused', async () => {
    const dataDir = await scratchFolder();
    const programs = join(dataDir, 'programs');
    mkdirSync(programs);
    chmodSync(programs, 0o777);
    await expect(TestServer.start({ dataDir })).rejects.toMatchObject({ advice: `Run: chmod go-w ${programs}` });
  });
});

describe('the key of a certificate', () => {
  it.each([
    ['read', 0o604],
    ['replace', 0o620],
  ])('that others can %s is refused', async (_what, mode) => {
    const folder = await scratchFolder();
    const [certPath, keyPath] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
    for (const path of [certPath, keyPath]) writeFileSync(path, 'no PEM');
    chmodSync(keyPath, mode);
    await expect(TestServer.start({ tlsCert: certPath, tlsKey: keyPath })).rejects.toMatchObject({
      code: 'INVALID_OPTIONS',
      message: `Others can read or replace the key ${keyPath}.`,
      advice: expect.stringContaining(`chmod 600 ${keyPath}`),
    });
  });
});
