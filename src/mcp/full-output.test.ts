import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FileStorage, type OpenedNamespaces, openNamespaces } from '../index.ts';
import { keepOutput } from './full-output.ts';

const MOST_KEPT = 20;

describe('output that is too long', () => {
  let folder: string;
  let storage: FileStorage;
  let namespaces: OpenedNamespaces;
  let time = 0;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cella-output-'));
    // Each thing is kept a second after the one before.
    storage = await FileStorage.open(folder, { clock: () => (time += 1000) });
    namespaces = await openNamespaces({ dataDir: folder, storage });
  });

  afterAll(async () => {
    await namespaces[Symbol.asyncDispose]();
    await storage.close();
    await rm(folder, { recursive: true, force: true });
  });

  const keep = (agentKey: string, execution: number, text = 'long') =>
    keepOutput(namespaces, { agentKey, execution, text, whole: true });
  const nameIn = (line: string) => /output-\w+-\d+\.txt/.exec(line)?.[0] ?? '';

  it('is kept, and the oldest of the agent goes', async () => {
    const lines: string[] = [];
    for (let execution = 1; execution <= MOST_KEPT + 1; execution++) lines.push(await keep('one', execution));
    const other = await keep('another', 1);
    const there = await Promise.all([...lines, other].map((line) => namespaces.artifacts.exists(nameIn(line))));
    expect(there).toEqual([false, ...lines.slice(1).map(() => true), true]);
  });

  it('is among the newest also where an execution of the same number had some', async () => {
    await keep('one', 2, 'again');
    const last = await keep('one', MOST_KEPT + 2);
    expect(await namespaces.artifacts.exists(nameIn(last))).toBe(true);
    expect(await namespaces.artifacts.exists(nameIn(last).replace(/\d+\.txt$/, '2.txt'))).toBe(true);
  });
});
