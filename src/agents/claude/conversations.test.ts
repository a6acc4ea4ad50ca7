import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { readConversation, writeConversation } from './conversations.ts';

const id = '00000000-0000-4000-8000-000000000001';
const line = (stamp: string, more = {}) => `${JSON.stringify({ type: 'user', timestamp: stamp, ...more })}\n`;

let folder: string;
let where: { cwd: string; homeDir: string };
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'cella-conversations-'));
  where = { cwd: join(folder, 'work'), homeDir: join(folder, 'home') };
  mkdirSync(where.cwd);
  mkdirSync(where.homeDir);
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('the conversations of Claude', () => {
  test('one comes back as it was written, its subagents included', async () => {
    const text = `${line('2026-01-01')}${line('2026-01-02', { agentId: 'a1' })}${line('2026-01-02', { agentId: 'a2' })}`;
    expect(await writeConversation(where, id, text)).toBe(true);
    expect(await readConversation(where, id)).toBe(text);
    expect(readdirSync(folder, { recursive: true }).filter((name) => String(name).endsWith('.jsonl'))).toHaveLength(3);
  });

  test('an old transcript does not overwrite a newer one', async () => {
    const [older, newer] = [line('2026-01-01'), line('2026-01-01') + line('2026-01-02')];
    await writeConversation(where, id, newer);
    expect(await writeConversation(where, id, older)).toBe(false);
    expect(await writeConversation(where, id, newer)).toBe(false);
    expect(await readConversation(where, id)).toBe(newer);
    expect(await writeConversation(where, id, newer + line('2026-01-03'))).toBe(true);
  });

  test('one that is not there is undefined; one that is empty is empty', async () => {
    expect(await readConversation(where, id)).toBeUndefined();
    const project = join(where.homeDir, '.claude', 'projects', 'x');
    mkdirSync(project, { recursive: true });
    await import('node:fs/promises').then(({ writeFile }) => writeFile(join(project, `${id}.jsonl`), ''));
    expect(await readConversation(where, id)).toBe('');
  });

  test.each(['../x', `${id}/../../x`, '', 'a\n', `$(touch x)'"`, '.'])('%j is no conversation', async (name) => {
    await expect(readConversation(where, name)).rejects.toMatchObject({ code: 'CONVERSATION_NOT_FOUND' });
    await expect(writeConversation(where, name, line('2026'))).rejects.toMatchObject({
      code: 'CONVERSATION_NOT_FOUND',
    });
  });

  test('a subagent whose name leads elsewhere writes nothing there', async () => {
    await writeConversation(where, id, line('2026-01-01', { agentId: '../../../../escaped' }));
    expect(readdirSync(folder, { recursive: true }).filter((name) => String(name).includes('escaped'))).toEqual([]);
  });

  test('a pipe in its place keeps nobody waiting, and one without end is not read', async () => {
    const project = join(where.homeDir, '.claude', 'projects', 'x');
    mkdirSync(project, { recursive: true });
    const file = join(project, `${id}.jsonl`);
    execFileSync('mkfifo', [file]);
    await expect(readConversation(where, id)).rejects.toMatchObject({ code: 'CONVERSATION_NOT_FOUND' });
    rmSync(file);
    writeFileSync(file, '');
    truncateSync(file, 2 ** 40);
    await expect(readConversation(where, id)).rejects.toMatchObject({ code: 'TOO_LARGE' });
  });
});
