/** The runner's commands: JSON in, lines of JSON out, and a non-zero exit code with one line that says why. */

import { once } from 'node:events';
import { mkdtemp, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect, test } from 'vitest';
import {
  ErrorLine,
  QueryLine,
  SetupLine,
  TranscriptLine,
  transcriptPieces,
} from '../../../src/protocol/runner-commands.ts';
import { runCommand, startRunner, turnId } from '../../support/agents/runner.ts';
import { type Step, script } from '../../support/agents/scripted-agent.ts';
import type { RunnerParts } from './turns.ts';

const lines = (...all: readonly object[]) => all.map((line) => `${JSON.stringify(line)}\n`).join('');

export function runnerCommands(parts: RunnerParts): void {
  const placeIn = (homeDir: string) => ({ agent: 'scripted', cwd: '/tmp', homeDir, programDir: '/tmp' });
  const queryOf = (steps: readonly Step[], more: object = {}) => ({
    ...placeIn(parts().folder),
    turn: turnId,
    prompt: script(...steps),
    mode: 'ask',
    timeoutMs: 60_000,
    access: { baseUrl: 'http://127.0.0.1:9', key: 'the-key' },
    ...more,
  });
  const query = (input: string) => runCommand(parts().scripted, 'execute-query', input);

  test('are in one file, which needs only Node', async () => {
    const text = await readFile(parts().real, 'utf8');
    const imported = [...text.matchAll(/^import .*from "(.+)";$/gm)].map(([, name = '']) => name);
    expect(imported.filter((name) => !name.startsWith('node:'))).toEqual([]);
    expect(imported).toContain('node:net');
    expect((await readdir(parts().folder)).filter((name) => name.endsWith('.mjs'))).toHaveLength(2);
  });

  test('setup-session writes a transcript of 12 MB, read-transcript returns it, and an older one is ignored', async () => {
    const place = placeIn(await mkdtemp(join(parts().folder, 'home-')));
    const long = 'é😀"line"\n'.repeat(900_000);
    const setUp = async (text: string) => {
      const first = { ...place, profile: {}, conversation: 'c1' };
      const { last, code } = await runCommand(
        parts().scripted,
        'setup-session',
        lines(first, ...transcriptPieces(text)),
      );
      expect(code).toBe(0);
      return SetupLine.parse(last).transcript;
    };
    expect(await setUp(long)).toBe('written');
    expect(await setUp('older')).toBe('kept');
    expect(await setUp('')).toBe('none');
    const read = await runCommand(parts().scripted, 'read-transcript', lines({ ...place, conversation: 'c1' }));
    const told = read.lines.map((line) => TranscriptLine.parse(line));
    expect(told.map((line) => (line.type === 'text' ? line.text : '')).join('') === long).toBe(true);
    expect(told.at(-1)).toEqual({ type: 'end', found: true });
  });

  test('read-transcript returns events, and says if there is no such conversation', async () => {
    const place = placeIn(await mkdtemp(join(parts().folder, 'home-')));
    await runCommand(
      parts().scripted,
      'setup-session',
      lines({ ...place, profile: {}, conversation: 'c1' }, { type: 'text', text: 'one\ntwo\n' }),
    );
    const events = await runCommand(
      parts().scripted,
      'read-transcript',
      lines({ ...place, conversation: 'c1', as: 'events' }),
    );
    expect(events.lines.map(({ type, event }) => [type, event?.text])).toEqual([
      ['event', 'one'],
      ['event', 'two'],
      ['end', undefined],
    ]);
    const none = await runCommand(parts().scripted, 'read-transcript', lines({ ...place, conversation: 'c2' }));
    expect([none.lines, none.code]).toEqual([[{ type: 'end', found: false }], 0]);
  });

  test('execute-query writes numbered events and its end; without input, everything is denied', async () => {
    const { lines: told, code } = await query(lines(queryOf([{ say: 'hi' }, { ask: 'Bash' }])));
    const events = told.map((line) => QueryLine.parse(line)).filter((line) => line.type === 'event');
    expect(events.map((line) => line.sequence)).toEqual([1, 2, 3]);
    const [, , answer] = events.map(({ event }) => (event.type === 'item_completed' ? event.text : ''));
    expect(JSON.parse(answer ?? '')).toMatchObject({ allowed: false });
    expect(told.at(-1)).toMatchObject({ type: 'ended', status: 'completed', messageCount: 3 });
    expect(code).toBe(0);
  });

  test('execute-query asks, gets answers, and can be stopped, over the same streams', async () => {
    const child = startRunner(parts().scripted, 'execute-query');
    const closed = once(child, 'close');
    child.stdin.write(lines(queryOf([{ ask: 'Bash' }, { wait: true }])));
    const told: { type: string }[] = [];
    for await (const line of createInterface(child.stdout)) {
      const parsed = QueryLine.parse(JSON.parse(line));
      told.push(parsed);
      if (parsed.type === 'permission') child.stdin.write(lines({ type: 'permission', id: parsed.id, allowed: true }));
      if (parsed.type === 'event' && parsed.event.type === 'item_completed') child.stdin.write(lines({ type: 'stop' }));
    }
    expect(told.map(({ type }) => type)).toEqual(['event', 'permission', 'event', 'ended']);
    expect(told.at(-1)).toMatchObject({ status: 'cancelled' });
    expect(await closed).toEqual([0, null]);
  });

  test.each<[string, readonly Step[], object, object]>([
    ['an agent that fails', [{ fail: 'no' }], {}, { status: 'failed', error: { code: 'PROVIDER_FAILED' } }],
    ['one that breaks', [{ die: 'oh' }], {}, { status: 'failed', error: { message: 'oh …' } }],
    ['one that takes too long', [{ wait: true }], { timeoutMs: 50 }, { status: 'timed_out' }],
    ['one that nobody knows', [], { agent: 'nobody' }, { status: 'failed', error: { code: 'AGENT_UNKNOWN' } }],
  ])('execute-query of %s exits with 1', async (_, steps, more, end) => {
    const { last, code } = await query(lines(queryOf(steps, more)));
    expect(last).toMatchObject({ type: 'ended', ...end });
    expect(code).toBe(1);
  });

  test.each<[string, string, string | Uint8Array, string]>([
    ['nothing', 'execute-query', '', 'INVALID_REQUEST'],
    ['blank lines', 'read-transcript', '\n \n', 'INVALID_REQUEST'],
    ['no JSON', 'setup-session', '{"agent": ', 'INVALID_REQUEST'],
    ['no UTF-8', 'setup-session', Buffer.from([0x22, 0xff, 0x22, 0x0a]), 'INVALID_REQUEST'],
    ['another shape', 'execute-query', '{"agent":"scripted","prompt":5}\n', 'INVALID_REQUEST'],
    ['a name that leads elsewhere', 'read-transcript', lines({ agent: '../x' }), 'INVALID_REQUEST'],
    ['a line of 9 MB', 'execute-query', `"${'x'.repeat(9_000_000)}"\n`, 'TOO_LARGE'],
    ['an unknown command', 'rm -rf', '', 'INVALID_REQUEST'],
  ])('with %s fails with one line of JSON', async (_, command, input, code) => {
    const result = await runCommand(parts().scripted, command, input);
    expect(result.lines).toHaveLength(1);
    expect(ErrorLine.parse(result.last).error.code).toBe(code);
    expect(result.code).toBe(1);
  });

  test('an invalid line after the first ends the query', async () => {
    const { last, code } = await query(`${lines(queryOf([{ wait: true }]))}nonsense\n`);
    expect(ErrorLine.parse(last).error.code).toBe('INVALID_REQUEST');
    expect(code).toBe(1);
  });

  test('a request that arrives byte by byte is read normally', async () => {
    const child = startRunner(parts().scripted, 'execute-query');
    const closed = once(child, 'close');
    child.stdout.resume();
    for (const byte of Buffer.from(lines(queryOf([{ say: 'é😀' }])))) {
      await new Promise<void>((resolve) => child.stdin.write(Buffer.of(byte), () => resolve()));
    }
    child.stdin.end();
    expect(await closed).toEqual([0, null]);
  });

  test('a query without a reader ends by itself', async () => {
    const child = startRunner(parts().scripted, 'execute-query');
    const closed = once(child, 'close');
    child.stdin.write(lines(queryOf([{ flood: 1_000_000 }, { wait: true }])));
    await once(child.stdout, 'data');
    child.stdout.destroy();
    expect((await closed)[1]).toBeNull();
  });
}
