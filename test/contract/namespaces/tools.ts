/** Tools, as code in a kernel calls them. */

import { describe, expect, it } from 'vitest';
import { inEnoughTime } from '../../support/kernels/enough-time.ts';
import { lacks } from '../../support/kernels/unsupported.ts';
import { errorOf, openWith, pyValue } from '../../support/namespaces/namespaces.ts';
import type { Place } from './namespaces.ts';

const GREP = `
name: grep
description: Finds lines in files
tags: [text, search]
command: grep
timeout: 10
schema:
  options:
    ignore_case: { type: boolean, short: i }
    max_count: { type: integer, short: m }
  positional:
    - { name: pattern, type: string, required: true }
    - { name: file, type: string, required: true }
recipes:
  first:
    description: The first line only
    preset: { max_count: 1 }
    params: { pattern: {}, file: {}, ignore_case: {} }
`;
const SHELL = (name: string, more = '') =>
  `name: ${name}\ndescription: Runs\ncommand: [sh, -c]\n${more}schema:\n  positional:\n    - { name: script, type: string }\n`;

export function namespaceTools(place: Place): void {
  describe('tools in a kernel', () => {
    it('run in the workspace and the sandbox of the session', async () => {
      const { session, storage } = await openWith(place);
      if (await lacks(session, 'subprocesses')) return;
      await storage.tools.put('grep', GREP);
      await session.run('open("notes.txt", "w").write("one\\nTwo\\ntwo again\\n")');
      expect(await pyValue(session, 'tools.grep(pattern="two", file="notes.txt")')).toBe('two again\n');
      expect(await pyValue(session, 'tools.grep("two", "notes.txt", ignore_case=True)')).toBe('Two\ntwo again\n');
      expect(await pyValue(session, 'tools.grep.first(pattern="two", file="notes.txt", ignore_case=True)')).toBe(
        'Two\n',
      );
      expect(await pyValue(session, 'await tools.grep.first.call_async(pattern="two", file="notes.txt")')).toBe(
        'two again\n',
      );
      expect(await pyValue(session, 'tools.grep.call_sync("one", "notes.txt")')).toBe('one\n');
    });

    it('see the environment and the packages of the session, and nothing of the host', async () => {
      const { session, storage } = await openWith(place, { env: { MINE: 'yes' } });
      if (await lacks(session, 'subprocesses')) return;
      await storage.tools.put('sh', SHELL('sh'));
      const seen = await pyValue(session, 'tools.sh("echo $MINE; ls /root 2>/dev/null; env; cat; true")');
      expect(seen).toMatch(/^yes\n/);
      expect(seen).not.toContain('.bashrc');
      expect(seen).not.toContain('CELLA_');
    });

    it('are listed, found and described', async () => {
      const { session, storage } = await openWith(place);
      await storage.tools.put('grep', GREP);
      await storage.tools.put('broken', 'name: broken\n  command: [');
      expect(await pyValue(session, '[tool["name"] for tool in tools.list()]')).toEqual(['grep']);
      expect(await pyValue(session, 'tools.search("find text in a file")[0]["name"]')).toBe('grep');
      expect(await pyValue(session, 'import inspect; list(inspect.signature(tools.grep).parameters)')).toEqual(
        expect.arrayContaining(['pattern', 'file', 'ignore_case', 'max_count']),
      );
      expect((await session.run('help(tools.grep)')).stdout).toContain('Finds lines in files');
      expect(await pyValue(session, '"grep" in dir(tools) and "first" in dir(tools.grep)')).toBe(true);
      expect((await errorOf(session, 'tools.broken()')).message).toMatch(/broken.*1/);
    });

    it('refuse arguments that their schema does not have, before anything runs', async () => {
      const { session, storage } = await openWith(place);
      await storage.tools.put('grep', GREP);
      expect((await errorOf(session, 'tools.grep(patern="x", file="y")')).message).toMatch(/patern.*pattern/s);
      expect((await errorOf(session, 'tools.grep("x", "y", max_count="many")')).name).toBe('CellaValueError');
      expect((await errorOf(session, 'tools.grep("--include=*", "/etc/passwd")')).name).toBe('CellaValueError');
      expect((await errorOf(session, 'tools.nothing()')).name).toBe('CellaLookupError');
      expect((await errorOf(session, 'tools.grep.nothing()')).name).toMatch(/Cella(Lookup|Value)Error/);
    });

    it('fail with their own message, time out with all their processes, and have limited output', async () => {
      const { session, storage } = await openWith(place);
      if (await lacks(session, 'subprocesses')) return;
      await storage.tools.put('sh', SHELL('sh'));
      await storage.tools.put('hasty', SHELL('hasty', 'timeout: 1\n'));
      await storage.tools.put('gone', 'name: gone\ndescription: x\ncommand: no-such-program\n');
      expect((await errorOf(session, 'tools.sh("echo oh >&2; exit 3")')).message).toMatch(/3.*oh/s);
      expect((await errorOf(session, 'tools.sh("kill -9 $$")')).message).toContain('SIGKILL');
      expect((await errorOf(session, 'tools.gone()')).message).toContain('no-such-program');
      const late = await errorOf(session, 'tools.hasty("setsid sleep 987 & sleep 987")');
      expect(late.name).toBe('CellaTimeoutError');
      await expect
        .poll(() => pyValue(session, 'import subprocess; subprocess.run(["pgrep", "-f", "sleep 987"]).returncode'), {
          timeout: 20_000,
        })
        .toBe(1);
      expect(
        await pyValue(
          session,
          'text = tools.sh("head -c 50000000 /dev/zero | tr \\\\0 x; exit 0"); len(text) < 20_000_000',
        ),
      ).toBe(true);
      expect(await pyValue(session, 'tools.sh("cat; echo done")')).toBe('done\n');
    });

    it('end with their program, even if another process keeps the output open', async () => {
      const { session, storage } = await openWith(place);
      if (await lacks(session, 'threads')) return;
      await storage.tools.put('py', 'name: py\ndescription: x\ncommand: [python3, give.py]\n');
      const result = await session.run(
        `
import os, socket, threading
listener = socket.socket(socket.AF_UNIX)
listener.bind('taken')
listener.listen()
kept = []
def keep():
    connection = listener.accept()[0]
    kept.append(socket.recv_fds(connection, 1, 2))
    connection.send(b'.')
threading.Thread(target=keep, daemon=True).start()
with open('give.py', 'w') as file:
    file.write('''
import socket
print('given', flush=True)
other = socket.socket(socket.AF_UNIX)
other.connect('taken')
socket.send_fds(other, [b'.'], [1, 2])
other.recv(1)
''')
(tools.py(), len(kept))`,
        { timeoutMs: 20_000 },
      );
      expect(result).toMatchObject({ status: 'ok', value: ['given\n', 1] });
    });

    it('ask before they run if they must, and are refused if nobody can be asked', async () => {
      const yaml = SHELL('sh', 'requires_approval: true\n');
      const { session, storage } = await openWith(place);
      if (await lacks(session, 'subprocesses')) return;
      await storage.tools.put('sh', yaml);
      expect(await errorOf(session, 'tools.sh("touch ran")')).toMatchObject({ name: 'CellaPermissionError' });
      const asked: string[] = [];
      const other = await openWith(place, {
        storage,
        agentKey: 'other',
        approve: async (request) => {
          asked.push(request.summary);
          return !request.summary.includes('no');
        },
        timeoutMs: 5000,
      });
      expect(await pyValue(other.session, 'tools.sh("echo yes")')).toBe('yes\n');
      expect(await errorOf(other.session, 'tools.sh("echo no")')).toMatchObject({ name: 'CellaPermissionError' });
      expect(asked).toHaveLength(2);
      expect(await pyValue(session, 'import os; os.path.exists("ran")')).toBe(false);
    });

    it('do not count the time for a person’s decision', async () => {
      let decideMs = 0;
      const approve = () => new Promise<boolean>((resolve) => setTimeout(resolve, decideMs, true));
      const { session, storage } = await openWith(place, { approve });
      if (await lacks(session, 'subprocesses')) return;
      await storage.tools.put('sh', SHELL('sh', 'requires_approval: true\n'));
      const allowed = (timeoutMs: number) => {
        decideMs = timeoutMs + 500;
        return session.run('tools.sh("echo allowed")', { timeoutMs });
      };
      const result = await inEnoughTime(1000, allowed, ({ status }) => status === 'ok');
      expect(result).toMatchObject({ status: 'ok', value: 'allowed\n' });
    });

    it('work the same from the host', async () => {
      const { session, storage } = await openWith(place);
      if (await lacks(session, 'subprocesses')) return;
      await storage.tools.put('sh', SHELL('sh'));
      expect(await session.tools.call('sh', { script: 'pwd' })).toBe(await pyValue(session, 'tools.sh("pwd")'));
    });
  });
}
