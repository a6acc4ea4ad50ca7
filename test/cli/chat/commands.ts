/** The other commands of a chat, and what it prints for programs. */

import { describe, expect, it } from 'vitest';
import type { Chats } from './pipes.ts';

export function chatCommands({ chat, send }: Chats): void {
  describe('/vars, /history, /cwd, /help, /quit', () => {
    it('list variables, without control characters for the terminal', async () => {
      const { out } = await chat(
        '/py x, 名 = [1, 2, 3], "日本"',
        '/py class E:\n',
        '    def __repr__(self): return "\\x1b[31m"',
        '',
        '/py e = E()',
        '/vars',
      );
      expect(out).toMatch(/^NAME +TYPE +LENGTH +SIZE +VALUE\n/);
      expect(out).toMatch(/\nx +list +3 .* \[1, 2, 3\]\n名 +str +2 .* '日本'\n/);
      expect(out).toMatch(/\ne .*\\u\{1b\}\[31m\n/);
      expect((await chat('/vars')).err).toContain('There are no variables');
    });

    it('show the last cells as they were typed', async () => {
      const { out } = await chat(
        '/py x = 1',
        '/sh echo "a  b"',
        '/cwd',
        '/py 1 / 0',
        '/py',
        'if x:',
        '    x = 2',
        '',
        '/history',
        '/history 1',
      );
      const all = '1   x = 1\n2   /sh echo "a  b"\n4 ! 1 / 0\n5   if x:\n        x = 2\n';
      expect(out).toBe(`a  b\n/agent/workspace\n${all}(3 before these: /history 4)\n5   if x:\n        x = 2\n`);
      expect((await chat('/history', '/history x')).err).toMatch(/Nothing has run yet[\s\S]*is not a number/);
    });

    it('list all commands, and describe one', async () => {
      const { out } = await chat('/help', '/help sh', '/help /undo');
      for (const name of ['py', 'sh', 'cwd', 'vars', 'undo', 'checkpoint', 'restore', 'fork', 'history', 'quit']) {
        expect(out).toContain(`\n/${name}`.slice(name === 'py' ? 1 : 0));
      }
      expect(out).toMatch(/You confirm it first[\s\S]*A \/sh is a cell too/);
      expect((await chat('/help nothing')).err).toContain('There is no command /nothing');
    });

    it.each(['/quit', '/exit', '  /quit  '])('leave the chat with %j', async (word) => {
      expect(await chat('/py 1', word, '/py 2')).toEqual({ code: 0, out: '1\n', err: '' });
    });

    it('refuse arguments if they take none', async () => {
      const { code, err } = await chat('/vars x', '/cwd x', '/undo 2', '/checkpoints x', '/quit now');
      expect([code, err.match(/takes no argument/g)]).toEqual([1, Array(5).fill('takes no argument')]);
    });
  });

  describe('--json', () => {
    it('prints events and replies, one per line', async () => {
      const lines = [
        '/py x = 1',
        '/py print("out"); x',
        '/vars',
        '/undo',
        '/checkpoint a',
        '/foo',
        '/sh exit 3',
        '/history',
      ];
      const { code, out, err } = await send(lines, ['--auto-sh', '--json']);
      expect([code, err]).toEqual([0, '']);
      const events = out
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line));
      expect(events).toEqual([
        {
          type: 'reply',
          command: 'chat',
          agentKey: expect.stringMatching(/^chat-[0-9a-f]{8}$/),
          kept: false,
          executor: 'subprocess',
          capabilities: expect.objectContaining({ trueRollback: true, liveFork: true }),
        },
        expect.objectContaining({ type: 'result', status: 'ok', execution: 1 }),
        { type: 'stdout', text: 'out\n' },
        expect.objectContaining({ type: 'result', status: 'ok', value: 1 }),
        { type: 'reply', command: 'vars', variables: [expect.objectContaining({ name: 'x', preview: '1' })] },
        { type: 'reply', command: 'undo', line: 'print("out"); x', changes: [] },
        { type: 'reply', command: 'checkpoint', checkpoint: expect.objectContaining({ name: 'a', kind: 'live' }) },
        {
          type: 'error',
          code: 'INVALID_OPTIONS',
          message: expect.stringContaining('/foo'),
          advice: expect.any(String),
        },
        expect.objectContaining({ type: 'result', status: 'error', error: expect.objectContaining({ exitCode: 3 }) }),
        { type: 'reply', command: 'sh', exitCode: 3 },
        { type: 'reply', command: 'history', entries: expect.any(Array) },
      ]);
      expect(events.at(-1).entries.map(({ line }: { line: string }) => line)).toEqual([
        'x = 1',
        'print("out"); x',
        '/sh exit 3',
      ]);
    });
  });
}
