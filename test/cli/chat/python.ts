/** Lines of Python in a chat, and lines that are nothing else. */

import { describe, expect, it } from 'vitest';
import type { Chats } from './pipes.ts';

export function chatPython({ chat, sendHere }: Chats): void {
  describe('/py', () => {
    it('shows the last value, output and errors', async () => {
      const { code, out, err } = await chat(
        '/py print("out"); 6 * 7',
        '/py import sys; print("err", file=sys.stderr)',
        '/py 1 / 0',
      );
      expect([code, out]).toEqual([1, 'out\n42\n']);
      expect(err).toMatch(/^err\nTraceback[\s\S]*ZeroDivisionError/);
    });

    it('reads several lines up to an empty one', async () => {
      const block = ['/py', 'def double(n):', '    return 2 * n', 'y = double(4)', '', '/py y'];
      expect(await chat(...block)).toEqual({ code: 0, out: '8\n', err: '' });
      expect(await chat('/py def one():', '    return 1', '', '/py one()')).toEqual({ code: 0, out: '1\n', err: '' });
    });

    it('reads on after an empty line inside quotes or brackets', async () => {
      expect(await chat('/py', 's = """a', '', 'b"""', '', '/py s')).toMatchObject({ out: "'a\\n\\nb'\n" });
      expect(await chat('/py sum([1,', '', '2])')).toMatchObject({ out: '3\n' });
    });

    it('does nothing without code', async () => {
      expect(await chat('/py', '', '/py 1')).toEqual({ code: 0, out: '1\n', err: '' });
      expect(await chat('/py')).toEqual({ code: 0, out: '', err: '' });
    });

    it('reset clears every variable and keeps files', async () => {
      const { out } = await chat(
        '/py x = open("f.txt", "w").write("kept")',
        '/py reset',
        '/py "x" in globals(), open("f.txt").read()',
      );
      expect(out).toBe("(False, 'kept')\n");
    });

    it('continues after sys.exit and after the kernel dies', async () => {
      const { code, out, err } = await chat(
        '/py import sys; sys.exit(3)',
        '/py 1',
        '/py import os; os._exit(4)',
        '/py 2',
      );
      expect([code, out]).toEqual([0, '1\n2\n']);
      expect(err).toMatch(/called sys\.exit\(3\)[\s\S]*exit code 4[\s\S]*a new kernel/);
    });

    it('reads answers to input() from the next lines', async () => {
      expect(await chat('/py name = input("who? ")', 'Ada', '/py name')).toMatchObject({ code: 0, out: "'Ada'\n" });
    });

    it.each([
      ['an unclosed quote', '/py print("a', 'SyntaxError: unterminated string literal'],
      ['an unclosed bracket', '/py print((1', "SyntaxError: '(' was never closed"],
      ['a null byte', '/py x = "\0"', 'null bytes'],
    ])('says what is wrong with %s', async (_what, line, reason) => {
      const { code, err } = await chat(line);
      expect([code, err]).toEqual([1, expect.stringContaining(reason)]);
    });

    it('accepts lines of any length and script', async () => {
      const long = 'é'.repeat(500_000);
      expect(await chat(`/py len("${long}")`, '/py 名 = "日本 🎉"', '/py print(名)')).toEqual({
        code: 0,
        out: '500000\n日本 🎉\n',
        err: '',
      });
    });
  });

  describe('other lines', () => {
    it.each([
      ['/foo', '/foo', 'There is no command /foo.\n/help lists them all.'],
      ['/chekpoint a', '/chekpoint a', 'Did you mean /checkpoint?'],
      ['/PY 1', '/PY 1', 'There is no command /PY.\nDid you mean /py?'],
      ['/', '/', 'There is no command /.'],
      ['/usr/bin/ls', '/usr/bin/ls', 'There is no command /usr/bin/ls.'],
      ['/日本', '/日本', 'There is no command /日本.'],
      ['a very long word', `/${'x'.repeat(100_000)}`, `There is no command /${'x'.repeat(39)}….`],
    ])('%s is no command', async (_what, line, reason) => {
      const { code, out, err } = await chat(line, '/py 1', line);
      expect([code, out]).toEqual([1, '1\n']);
      expect(err).toContain(reason);
    });

    it('have no agent yet, and say how to run Python', async () => {
      const { code, out, err } = await chat('hello', '', '   ', '/py 1', 'x = 1');
      expect([code, out]).toEqual([1, '1\n']);
      expect(err.match(/No coding agent is chosen.\n.*\/py CODE/g)).toHaveLength(2);
    });

    it('are Python with --auto-py, next to commands', async () => {
      const lines = [
        'x = 20',
        'def f(n):',
        '    return n + 1',
        '',
        'f(x)',
        '/undo',
        '/py x + 2',
        'exit',
        'print("never")',
      ];
      expect(await sendHere(lines, ['--auto-py'])).toMatchObject({ code: 0, out: '21\n22\n' });
    });
  });
}
