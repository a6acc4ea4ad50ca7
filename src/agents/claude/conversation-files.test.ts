import { execFileSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openNoFollowFolder, readConversation, replaceText, writeConversation } from './conversation-files.ts';

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
  test('are read as they were written, including subagents', async () => {
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

  test('a missing one is undefined; an empty one is empty', async () => {
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

  test('a pipe in its place blocks nobody, and an endless file is not read', async () => {
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

  describe('links of kernel code that lead out of the home', () => {
    const secret = line('2026-01-01', { message: 'of somebody else' });
    let [project, file, outside] = ['', '', ''];
    beforeEach(() => {
      project = join(where.homeDir, '.claude', 'projects', 'x');
      file = join(project, `${id}.jsonl`);
      outside = join(folder, 'outside');
      mkdirSync(join(project, '..'), { recursive: true });
      mkdirSync(outside);
      writeFileSync(join(outside, `${id}.jsonl`), secret);
    });

    test('nothing is read through one in place of a conversation, of its folder or of a subagent', async () => {
      symlinkSync(outside, project);
      await expect(readConversation(where, id)).rejects.toMatchObject({ code: 'CONVERSATION_NOT_FOUND' });
      rmSync(project);
      mkdirSync(project);
      symlinkSync(join(outside, `${id}.jsonl`), file);
      await expect(readConversation(where, id)).rejects.toMatchObject({ code: 'CONVERSATION_NOT_FOUND' });
      rmSync(file);
      writeFileSync(file, line('2026-01-01'));
      mkdirSync(join(project, id));
      symlinkSync(outside, join(project, id, 'subagents'));
      await expect(readConversation(where, id)).rejects.toMatchObject({ code: 'CONVERSATION_NOT_FOUND' });
    });

    test('nothing is read, written or created through one in place of a parent folder of all conversations', async () => {
      const above = join(where.homeDir, '.claude');
      rmSync(above, { recursive: true });
      symlinkSync(outside, above);
      mkdirSync(join(outside, 'projects', 'x'), { recursive: true });
      writeFileSync(join(outside, 'projects', 'x', `${id}.jsonl`), secret);
      const other = id.replace(/1$/, '2');
      const refusal = { code: 'CONVERSATION_NOT_FOUND' };
      await expect(readConversation(where, id)).rejects.toMatchObject(refusal);
      for (const one of [id, other]) {
        await expect(writeConversation(where, one, line('2026-01-02'))).rejects.toMatchObject(refusal);
      }
      expect(readFileSync(join(outside, 'projects', 'x', `${id}.jsonl`), 'utf8')).toBe(secret);
      expect(readdirSync(join(outside, 'projects'))).toEqual(['x']);
      expect(readdirSync(join(outside, 'projects', 'x'))).toEqual([`${id}.jsonl`]);
    });

    test('nothing is written through one, and a pipe blocks nobody', async () => {
      mkdirSync(project);
      writeFileSync(file, '');
      symlinkSync(join(outside, `${id}.jsonl`), `${file}.part`);
      expect(await writeConversation(where, id, line('2026-01-02'))).toBe(true);
      execFileSync('mkfifo', [`${file}.part`]);
      expect(await writeConversation(where, id, line('2026-01-03'))).toBe(true);
      mkdirSync(join(project, id));
      symlinkSync(outside, join(project, id, 'subagents'));
      rmSync(join(outside, `${id}.jsonl`));
      const more = line('2026-01-04', { agentId: 'a1' });
      await expect(writeConversation(where, id, more)).rejects.toMatchObject({ code: 'CONVERSATION_NOT_FOUND' });
      expect(readdirSync(outside)).toEqual([]);
    });

    test('nothing is overwritten through one', async () => {
      mkdirSync(project);
      writeFileSync(file, '');
      symlinkSync(join(outside, `${id}.jsonl`), `${file}.part`);
      await writeConversation(where, id, line('2026-01-02'));
      expect(readFileSync(join(outside, `${id}.jsonl`), 'utf8')).toBe(secret);
    });
  });

  test('many files that are each just below the limit are not read either', async () => {
    const subagents = join(where.homeDir, '.claude', 'projects', 'x', id, 'subagents');
    mkdirSync(subagents, { recursive: true });
    writeFileSync(`${join(subagents, '..')}.jsonl`, '');
    for (const name of ['a', 'b', 'c']) {
      writeFileSync(join(subagents, `${name}.jsonl`), '');
      truncateSync(join(subagents, `${name}.jsonl`), 150e6);
    }
    await expect(readConversation(where, id)).rejects.toMatchObject({ code: 'TOO_LARGE' });
  });
});

test('a link that replaces an open folder is not followed', async () => {
  const [home, outside] = [where.homeDir, join(folder, 'outside')];
  mkdirSync(outside);
  await using held = await openNoFollowFolder(home, ['.claude', 'projects']);
  renameSync(join(home, '.claude', 'projects'), join(home, 'away'));
  symlinkSync(outside, join(home, '.claude', 'projects'));
  await writeFile(held.path('x.jsonl'), 'text');
  expect(readdirSync(outside)).toEqual([]);
  expect(readFileSync(join(home, 'away', 'x.jsonl'), 'utf8')).toBe('text');
});

test('missing folders are created, and never through a link', async () => {
  const [home, outside] = [where.homeDir, join(folder, 'outside')];
  mkdirSync(outside);
  await replaceText(home, join(home, 'a', 'b', 'x'), 'first');
  await replaceText(home, join(home, 'a', 'b', 'x'), 'second');
  expect(readFileSync(join(home, 'a', 'b', 'x'), 'utf8')).toBe('second');
  expect(readdirSync(join(home, 'a', 'b'))).toEqual(['x']);
  symlinkSync(outside, join(home, 'out'));
  const refusal = { code: 'CONVERSATION_NOT_FOUND' };
  await expect(replaceText(home, join(home, 'out', 'deeper', 'x'), 'text')).rejects.toMatchObject(refusal);
  await expect(replaceText(home, join(outside, 'x'), 'text')).rejects.toMatchObject(refusal);
  expect(readdirSync(outside)).toEqual([]);
});
