/** F7: whatever code tries, packages that are locked stay as they are; the host's own side is what is looked at. */

import { createHash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { Session, Storage } from '../../src/index.ts';
import { errorOf, pyValue } from '../support/namespaces/namespaces.ts';
import { makeWheel } from '../support/packages/wheels.ts';
import { PRELUDE } from './attempts.ts';
import { callAttempts } from './attempts-calls.ts';
import { environmentAttempts } from './attempts-environments.ts';
import type { Cell } from './cell.ts';

const SKILL = 'async def run():\n    deps.add("evil")\n';
const TOOL = `
name: meddle
description: Copies a file into the package set
command: sh
schema:
  positional:
    - name: script
      type: string
  options:
    c: { type: boolean, short: c }
`;
const CONFIGURED = ['tiny-a>=1.0'];
/** Of hexadecimal digits alone, as the names of sets are, none of these can come by chance. */
const SPOILED = /evil|gone/;
/** Where an attempt expects nothing else, it is the host that says no. */
const REFUSED = /^(DEPS_LOCKED|INVALID_OPTIONS)$/;

export async function noBypass(cell: Cell): Promise<void> {
  const storage = await cell.openStorage();
  await storage.deps.add('tiny-a>=1.0');
  const other = await cell.startOtherIndex();
  const session = await cell.openSession({ allowRuntimeDeps: false, syncDepsOnStart: true, agentKey: 'locked' });
  expect(await pyValue(session, 'import tiny_a; tiny_a.X')).toBe(42);
  const host = await HostSide.look(cell, storage);
  const address = storage.toBootstrapConfig();
  const facts = {
    INDEX: cell.index.url,
    OTHER: other.url,
    STORAGE: address.type === 'file' ? address.path : address.url,
    REAL: join(cell.dataDir, 'packages'),
  };
  const given = Object.entries(facts).map(([name, value]) => `${name} = ${JSON.stringify(value)}\n`);
  await pyValue(session, given.join('') + PRELUDE);
  for (const { name, code, needs, expects = REFUSED } of [...callAttempts, ...environmentAttempts]) {
    if (needs !== undefined && !session.capabilities[needs]) continue;
    const words = await pyValue(session, code);
    const others = Array.isArray(words) ? words.filter((word) => !expects.test(String(word))) : [words];
    expect([name, words, others]).toEqual([name, expect.any(Array), []]);
    await host.expectUnchanged(name);
  }
  await bySkillsAndTools(session, storage);
  await host.expectUnchanged('skills and tools');
  await byOtherSessions(cell, session);
  await host.expectUnchanged('other sessions');
  expect(cell.index.requests.filter((path) => path.includes('evil'))).toEqual([]);
  await bySync(cell, session, storage);
  // Whoever tried to lead an installer elsewhere has led nobody there.
  expect(other.requests).toEqual([]);
  expect(await errorOf(await cell.openSession(), 'import evil')).toMatchObject({ name: 'ModuleNotFoundError' });
  // All of it was refused by the lock, and not for want of the package.
  const free = await cell.openSession();
  expect(await pyValue(free, 'deps.add("evil"); import evil; evil.VERSION')).toBe('1.0.0');
}

/** Code that others have written is held to the same. */
async function bySkillsAndTools(session: Session, storage: Storage): Promise<void> {
  await storage.skills.put('meddler', SKILL);
  const locked = { name: 'CellaPermissionError' };
  expect(await errorOf(session, 'skills.meddler()')).toMatchObject(locked);
  expect(await errorOf(session, 'await skills.meddler()')).toMatchObject(locked);
  await pyValue(session, `skills.create("mine", ${JSON.stringify(SKILL)})`);
  expect(await errorOf(session, 'skills.mine()')).toMatchObject(locked);
  await storage.tools.put('meddle', TOOL);
  const script = 'echo "X = 666" > $0/evil.py || exit 3';
  const call = `tools.meddle(script=${JSON.stringify(script)}.replace("$0", FOLDER), c=True)`;
  expect(await errorOf(session, call)).toMatchObject({ name: expect.stringMatching(/Error$/) });
}

/** Handles that come from the locked session, and kernels that begin anew, are locked too. */
async function byOtherSessions(cell: Cell, session: Session): Promise<void> {
  const refused = async (one: Session) => {
    expect(await errorOf(one, 'deps.add("evil")')).toMatchObject({ name: 'CellaPermissionError' });
    expect(await errorOf(one, 'deps.remove("tiny-a")')).toMatchObject({ name: 'CellaPermissionError' });
    await expect(one.deps.add('evil')).rejects.toMatchObject({ code: 'DEPS_LOCKED' });
    await expect(one.deps.remove('tiny-a')).rejects.toMatchObject({ code: 'DEPS_LOCKED' });
  };
  if (session.capabilities.liveFork) {
    await using forked = await session.fork({ agentKey: 'forked' });
    await refused(forked);
  }
  await session.run('deps.add("evil")', { transaction: 'rollback_always' });
  await session.reset();
  await refused(session);
  await session.hibernate();
  await refused(session);
  await session.restart();
  await refused(session);
  await refused(await cell.openSession({ allowRuntimeDeps: false, agentKey: 'second' }));
}

/** What a locked session may still do takes from the configured index what its operator has configured, and only that. */
async function bySync(cell: Cell, session: Session, storage: Storage): Promise<void> {
  await makeWheel(cell.wheels, 'late');
  await storage.deps.add('late');
  expect(await pyValue(session, 'deps.sync()')).toMatchObject({ installed: ['late', 'tiny-a>=1.0'], failed: [] });
  expect(await pyValue(session, 'import late, tiny_a; [late.VERSION, tiny_a.X]')).toEqual(['1.0.0', 42]);
  expect(await errorOf(session, 'import evil')).toMatchObject({ name: 'ModuleNotFoundError' });
  expect(await storage.deps.list()).toEqual(['late', ...CONFIGURED]);
}

/** What lies on the host: the configuration, and every file of the package sets. */
class HostSide {
  readonly #cell: Cell;
  readonly #storage: Storage;
  readonly #files: Readonly<Record<string, string>>;

  private constructor(cell: Cell, storage: Storage, files: Readonly<Record<string, string>>) {
    this.#cell = cell;
    this.#storage = storage;
    this.#files = files;
  }

  static async look(cell: Cell, storage: Storage): Promise<HostSide> {
    const files = await filesIn(join(cell.dataDir, 'packages'));
    expect(Object.keys(files).some((name) => name.endsWith('tiny_a/__init__.py'))).toBe(true);
    return new HostSide(cell, storage, files);
  }

  async expectUnchanged(after: string): Promise<void> {
    expect([after, await this.#storage.deps.list()]).toEqual([after, CONFIGURED]);
    const elsewhere = await this.#cell.openStorage();
    expect([after, await elsewhere.deps.list()]).toEqual([after, CONFIGURED]);
    await elsewhere.close();
    const files = await filesIn(join(this.#cell.dataDir, 'packages'));
    expect([after, files]).toEqual([after, this.#files]);
    const names = Object.keys(files).filter((name) => SPOILED.test(name));
    expect([after, names]).toEqual([after, []]);
  }
}

/** Mode and content of every file, by its path. */
async function filesIn(folder: string): Promise<Record<string, string>> {
  const names = await readdir(folder, { recursive: true });
  const entries = names.toSorted().map(async (name): Promise<[string, string]> => {
    const path = join(folder, name);
    const facts = await stat(path);
    const content = facts.isFile()
      ? createHash('sha256')
          .update(await readFile(path))
          .digest('hex')
      : '';
    return [name, `${facts.mode.toString(8)} ${content}`];
  });
  return Object.fromEntries(await Promise.all(entries));
}
