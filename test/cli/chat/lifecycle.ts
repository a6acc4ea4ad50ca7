/** A chat from its beginning to its end: whose names it has, and what is left when it is over. */

import { randomUUID } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Cella } from '../../support/cli/command.ts';
import { eventually } from '../../support/kernels/attack-code.ts';
import { descendants, type Process, processes } from '../../support/processes/processes.ts';
import type { Chats } from './pipes.ts';

const GONE_MS = 30_000;

/** What descends from a process, once so many of them sleep: a shell tells of a child before that runs its program. */
async function untilAsleep(pid: number, count: number): Promise<Process[]> {
  const asleep = (all: Process[]) => all.filter(({ command }) => command === 'sleep 3600').length === count;
  return await eventually(() => descendants(pid), asleep, GONE_MS);
}

/** Of these processes, those that still run the same. */
const left = (before: readonly Process[]): Process[] =>
  processes().filter((one) => before.some(({ pid, command }) => pid === one.pid && command === one.command));

const agents = ({ dataDir }: Cella): string[] => {
  const keys = readdirSync(join(dataDir, 'agents'));
  return keys.filter((name) => name.startsWith('chat-'));
};

export function chatLife({ cella, send, open, leave }: Chats): void {
  describe('a chat', () => {
    it('keeps definitions from line to line', async () => {
      expect(await send(['/py x=123', '/py print(x)'])).toEqual({ code: 0, out: '123\n', err: '' });
    });

    it('has its own variables, even while another chat is open', async () => {
      const first = await open();
      first.type('/py x = "first"\n');
      expect(await send(['/py "x" in globals()'])).toEqual({ code: 0, out: 'False\n', err: '' });
      first.type('/py x\n');
      await first.says("'first'");
      expect(await leave(first)).toBe(0);
      expect(await send(['/py "x" in globals()'])).toEqual({ code: 0, out: 'False\n', err: '' });
    });

    it('does not reset another chat', async () => {
      const [one, other] = [await open(), await open()];
      for (const each of [one, other]) each.type('/py x = 123\n/py print("x is", x)\n');
      await Promise.all([one.says('x is 123'), other.says('x is 123')]);
      one.type('/py reset\n/py "x" in globals()\n');
      await one.says('False');
      other.type('/py print("still", x)\n');
      await other.says('still 123');
      expect(await Promise.all([leave(one), leave(other)])).toEqual([0, 0]);
    });

    it('leaves no process and no file behind', async () => {
      const started = await open('--auto-sh');
      started.type('/py import subprocess; p = subprocess.Popen(["sleep", "3600"])\n');
      started.type('/sh sleep 3600 & echo both\n');
      await started.says('both');
      const before = await untilAsleep(started.child.pid ?? 0, 2);
      started.type('/quit\n');
      expect(await started.ended).toBe(0);
      expect(left(before)).toEqual([]);
      expect(readdirSync(cella().temporary)).toEqual([]);
      expect(agents(cella())).toEqual([]);
      expect(JSON.parse((await cella().run(['ps', '--json'])).out).kernels).toEqual([]);
    });

    it.each(['SIGTERM', 'SIGHUP'] as const)('leaves nothing behind when it is ended by %s', async (signal) => {
      const started = await open();
      const before = descendants(started.child.pid ?? 0);
      started.type('/py while True: pass\n');
      started.child.kill(signal);
      expect(await started.ended).toBe(signal === 'SIGTERM' ? 143 : 129);
      // On a busy machine, a killed process takes a moment to end.
      expect(
        await eventually(
          () => left(before),
          (seen) => seen.length === 0,
          GONE_MS,
        ),
      ).toEqual([]);
      expect([agents(cella()), readdirSync(cella().temporary)]).toEqual([[], []]);
    });

    it('leaves no process behind when it is killed, even in the middle of a cell', async () => {
      const started = await open('--auto-sh');
      started.type('/sh sleep 3600 & echo asleep\n');
      await started.says('asleep');
      started.type('/py print("busy", flush=True)\n/py while True: pass\n');
      await started.says('busy');
      const before = await untilAsleep(started.child.pid ?? 0, 1);
      expect(before.length).toBeGreaterThan(2);
      started.child.kill('SIGKILL');
      expect(await started.ended).toBe('SIGKILL');
      expect(
        await eventually(
          () => left(before),
          (seen) => seen.length === 0,
          GONE_MS,
        ),
      ).toEqual([]);
    });

    it('continues with a named agent key, and keeps it', async () => {
      const flags = ['--key', `ada ${randomUUID()}`];
      expect(await send(['/py x = 123'], flags)).toEqual({ code: 0, out: '', err: '' });
      expect(await send(['/py print(x)'], flags)).toEqual({ code: 0, out: '123\n', err: '' });
      expect(await cella().run(['run', ...flags, '-c', 'x'])).toEqual({ code: 0, out: '123\n', err: '' });
    });

    it('says which process holds the agent key', async () => {
      const agent = `held ${randomUUID()}`;
      const holder = await open('--key', agent);
      const { code, err } = await send(['/py 1'], ['--key', agent]);
      expect([code, err]).toEqual([1, expect.stringContaining(String(holder.child.pid))]);
      await leave(holder);
    });
  });
}
