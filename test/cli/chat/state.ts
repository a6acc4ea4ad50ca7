/** Going back in a chat: /undo, checkpoints and forks. */

import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { Chats } from './pipes.ts';

export function chatState({ chat, send, sendHere }: Chats): void {
  describe('/undo', () => {
    it('goes back cell by cell, and says what it undid', async () => {
      const { code, out, err } = await chat(
        '/py x = [1]',
        '/py x.append(2)',
        '/py y = 3',
        '/undo',
        '/undo',
        '/py x, "y" in globals()',
      );
      expect([code, out]).toEqual([0, '([1], False)\n']);
      expect(err).toMatch(/^Undone: y = 3\ny is gone\..*\nUndone: x\.append\(2\)\nx: \[1, 2\] → \[1\]\..*\n$/);
    });

    it('undoes the working folder of a shell command, and does not count /cwd', async () => {
      const { out, err } = await chat(
        '/py x = 1',
        '/sh cd /tmp',
        '/cwd',
        '/cwd',
        '/undo',
        '/cwd',
        '/undo',
        '/py "x" in globals()',
      );
      expect(out).toBe('/tmp\n/tmp\n/agent/workspace\nFalse\n');
      expect(err).toMatch(/Undone: \/sh cd \/tmp\n[\s\S]*Undone: x = 1\n/);
    });

    it('says when there is nothing left', async () => {
      const { code, out, err } = await chat('/py x = 1', '/undo', '/undo', '/py "on"', '/undo', '/undo', '/undo');
      expect([code, out]).toEqual([1, "'on'\n"]);
      expect(err.match(/nothing left to undo: a chat can undo its last 5 cells/g)).toHaveLength(3);
      expect(err).toContain('/checkpoint NAME');
    });

    it('goes back to before a cell that killed the kernel', async () => {
      const lines = ['/py x = 1', '/py x = 2; import os; os._exit(1)', '/undo', '/py x'];
      const { code, out, err } = await chat(...lines);
      expect([code, out]).toEqual([0, '1\n']);
      expect(err).toContain('Undone: x = 2; import os; os._exit(1)\n');
    });

    it('goes back up to five cells', async () => {
      const cells = Array.from({ length: 7 }, (_, index) => `/py x = ${index}`);
      const { code, out } = await chat(...cells, ...Array(5).fill('/undo'), '/py x', '/undo');
      expect([code, out]).toEqual([0, '1\n']);
    });
  });

  describe('/checkpoint and /restore', () => {
    it('go back to a checkpoint any number of times', async () => {
      const lines = [
        '/py x = [1]',
        '/checkpoint clean start',
        '/py x.append(2); y = 3',
        '/restore clean start',
        '/py x, "y" in globals()',
      ];
      const { code, out, err } = await chat(...lines, '/py x.append(4)', '/restore clean start', '/py x');
      expect([code, out]).toEqual([0, '([1], False)\n[1]\n']);
      expect(err).toMatch(
        /Checkpoint "clean start": .*as long as this kernel lives\.\n[\s\S]*Back at "clean start".*y is gone/,
      );
    });

    it('write to the data folder with --durable, and survive the end of the kernel and the chat', async () => {
      const flags = ['--key', `durable ${randomUUID()}`];
      const lines = ['/py x = 1; import socket; s = socket.socket()', '/checkpoint --durable kept', '/py x = 2'];
      const { err } = await send([...lines, '/py import os; os._exit(1)', '/restore kept', '/py x'], flags);
      expect(err).toMatch(/Checkpoint "kept" \(2 variables, .*\): .*in any process\.\n[\s\S]*s was not saved: /);
      await send(['/py x = 3'], flags);
      expect(await send(['/restore kept', '/py x'], flags)).toMatchObject({ code: 0, out: '1\n' });
    });

    it('list them', async () => {
      expect((await chat('/checkpoints')).err).toContain('There are no checkpoints');
      const { out } = await chat('/checkpoint a', '/checkpoint --durable b', '/checkpoints');
      expect(out).toMatch(/^NAME +KIND +CREATED\na +live .*\nb +durable .*\n$/);
    });

    it('need a name, and an existing one to restore', async () => {
      const { code, err } = await chat(
        '/checkpoint',
        '/checkpoint --durable',
        '/restore',
        '/restore nothing',
        `/checkpoint ${'x'.repeat(201)}`,
      );
      expect(code).toBe(1);
      expect(err.match(/A checkpoint needs a name/g)).toHaveLength(2);
      expect(err).toMatch(/Type \/restore NAME[\s\S]*There is no checkpoint "nothing"[\s\S]*1 to 200 characters/);
    });
  });

  describe('/fork', () => {
    it('creates another agent key with the same variables, in the same folder', async () => {
      const [from, to] = [`from ${randomUUID()}`, `to ${randomUUID()}`];
      const { code, err } = await sendHere(
        ['/py x = [1]; open("f.txt", "w").write("shared")', `/fork ${to}`, '/py x.append(2)'],
        ['--key', from],
      );
      expect([code, err]).toEqual([0, expect.stringContaining(`cella chat --key '${to}'`)]);
      expect((await sendHere(['/py x, open("f.txt").read()'], ['--key', to])).out).toBe("([1], 'shared')\n");
      expect((await sendHere(['/py x'], ['--key', from])).out).toBe('[1, 2]\n');
    });

    it('keeps the agent key of a chat without a name, because its folder is shared', async () => {
      const to = `to ${randomUUID()}`;
      const { err } = await chat('/py open("f.txt", "w").write("kept")', `/fork ${to}`);
      expect(err).toMatch(/"chat-\w+" is kept too/);
      expect((await sendHere(['/py open("f.txt").read()'], ['--key', to])).out).toBe("'kept'\n");
    });

    it('needs a key that is not in use', async () => {
      const agent = `mine ${randomUUID()}`;
      await sendHere(['/py 1'], ['--key', agent]);
      const { code, err } = await chat('/fork', `/fork ${agent}`);
      expect([code, err]).toEqual([1, expect.stringMatching(/Type \/fork KEY[\s\S]*There is already a kernel/)]);
      expect((await sendHere(['/fork other one', '/fork other one'], ['--key', agent])).err).toMatch(/already/);
    });
  });
}
