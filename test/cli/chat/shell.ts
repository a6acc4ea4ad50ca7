/** Lines for the shell in a chat. */

import { describe, expect, it } from 'vitest';
import type { Chats } from './pipes.ts';

export function chatShell({ chat, sendHere, open, leave }: Chats): void {
  describe('/sh', () => {
    it('runs in the sandbox and the folder of the code, and shows its output unchanged', async () => {
      const { code, out, err } = await chat(
        '/py open("f.txt", "w").write("from Python")',
        '/sh cat f.txt; echo; echo oops >&2; ls /etc/shadow',
      );
      expect([code, out]).toEqual([1, '11\nfrom Python\n']);
      expect(err).toMatch(/^oops\nls: .*\/etc\/shadow.*\n\[exit code 2\]\n$/);
    });

    it('keeps its working folder, and Python uses it too', async () => {
      const lines = [
        '/sh mkdir -p "a b" && cd "a b"',
        '/sh pwd',
        '/py import os; print(os.getcwd())',
        '/cwd',
        '/sh cd ..; exit 0',
        '/cwd',
      ];
      const folder = '/agent/workspace/a b\n';
      expect(await chat(...lines)).toEqual({ code: 0, out: `${folder.repeat(3)}/agent/workspace\n`, err: '' });
    });

    it('uses the working folder of Python', async () => {
      expect(await chat('/py import os; os.chdir("/tmp")', '/sh pwd')).toMatchObject({ out: '/tmp\n' });
    });

    it('changes no variable, not even the last value', async () => {
      const lines = [
        '/py x = 5',
        '/py 41',
        '/sh x=6; command=7; os=8',
        '/py sorted(n for n in globals() if n[0] != "_"), x, _',
      ];
      expect((await chat(...lines)).out).toBe("41\n(['x'], 5, 41)\n");
    });

    it('works even if the code has overwritten the names that it needs', async () => {
      expect(await chat('/py exec = open = os = print = None', '/sh echo works')).toMatchObject({ out: 'works\n' });
    });

    it('accepts quotes, newlines and any script unchanged', async () => {
      expect((await chat(`/sh echo "it's" 'a "b"' \\$HOME $((1 + 1)) 日本🎉`)).out).toBe(
        'it\'s a "b" $HOME 2 日本🎉\n',
      );
      const block = ['/sh', 'for word in one "two', 'three"; do', '  echo "[$word]"', 'done', ''];
      expect((await chat(...block)).out).toBe('[one]\n[two\nthree]\n');
      expect((await chat('/sh', "cat <<'END'", '$x `y` "z"', 'END', '')).out).toBe('$x `y` "z"\n');
    });

    it.each([
      ['its exit code', '/sh exit 7', '[exit code 7]'],
      ['its signal', '/sh kill -9 $$', '[ended by SIGKILL]'],
      ['that the program does not exist', '/sh no-such-program', '[exit code 127]'],
      ['an unclosed quote', '/sh echo "unclosed', 'Unterminated quoted string'],
      ['a command that is too long', `/sh ${'x'.repeat(200_000)}`, 'This command has 200000 bytes'],
      ['a null byte', '/sh a\0b', 'null byte'],
    ])('tells %s, and the chat goes on', async (_what, line, reason) => {
      const { code, out, err } = await chat(line, '/py "on"', line);
      expect([code, out]).toEqual([1, "'on'\n"]);
      expect(err).toContain(reason);
    });

    it('streams its output', async () => {
      const started = await open('--auto-sh');
      started.type('/sh echo first; while [ ! -e go ]; do :; done; echo second\n');
      await started.says('first');
      expect(started.out).not.toContain('second');
      started.child.kill('SIGINT');
      started.type('/py "on"\n');
      await started.says('on');
      expect(started.err).toContain('[ended by SIGINT]');
      expect(await leave(started)).toBe(0);
    });

    it('does not wait for background processes', async () => {
      const { code, out } = await chat('/sh sleep 3600 & echo started', '/sh cd /tmp; sleep 3600 &', '/cwd');
      expect([code, out]).toEqual([0, 'started\n/tmp\n']);
    });

    it('does not read the input of the chat', async () => {
      expect(await chat('/sh cat; echo end', '/py 1')).toMatchObject({ out: 'end\n1\n' });
    });

    it('is refused if nobody can confirm it', async () => {
      const { code, out, err } = await sendHere(['/sh echo ran', '/py 1', '/sh echo ran']);
      expect([code, out]).toEqual([1, '1\n']);
      expect(err).toMatch(/must be confirmed.*no terminal[\s\S]*--auto-sh[\s\S]*CELLA_AUTO_SH=1/);
    });

    it('runs without asking with CELLA_AUTO_SH=1', async () => {
      const allowed = await sendHere(['/sh echo ran'], [], { env: { CELLA_AUTO_SH: '1' } });
      expect(allowed).toEqual({ code: 0, out: 'ran\n', err: '' });
      expect((await sendHere(['/sh echo ran'], [], { env: { CELLA_AUTO_SH: '0' } })).code).toBe(1);
    });
  });
}
