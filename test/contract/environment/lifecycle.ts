/** The life of an environment: how it ends, and how another process finds it again. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  attachEnvironment,
  crashLast,
  type Opened,
  openEnvironment,
  python,
} from '../../support/kernels/environments.ts';
import { LOCKED } from './exec.ts';

const host = fileURLToPath(new URL('../../support/kernels/environment-host.ts', import.meta.url));

const HOLDS_LOCK = `
import fcntl, time
lock = open("lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
open("kept", "w").write("by the first host")
print("ready", flush=True)
time.sleep(600)`;

export function environmentLifeContract(opened: () => Opened): void {
  const elsewhere = async () => {
    const { where } = opened();
    return { ...where, folder: await mkdtemp(join(where.folder, 'other-')) };
  };

  describe('lifecycle', () => {
    it('describes itself', async () => {
      const { environment, where } = opened();
      expect(environment).toMatchObject({ kind: where.kind, isolated: where.kind !== 'local' });
      expect(JSON.parse(JSON.stringify(environment.handle()))).toEqual(environment.handle());
      expect(environment.handle()).toMatchObject({ kind: where.kind, id: environment.getId() });
      const paths = environment.getBasePaths();
      expect(Object.keys(paths).sort()).toEqual(['APP_DIR', 'BUNDLED_MCP_DIR', 'HOME_DIR', 'WORKSPACE_DIR']);
      if (environment.isolated)
        expect(paths).toMatchObject({ WORKSPACE_DIR: '/agent/workspace', HOME_DIR: '/agent/home' });
      expect(await environment.isRunning()).toBe(true);
      expect(await environment.poll()).toBeUndefined();
    });

    it('continues in another process after the host was killed: same id and files, and its programs have ended', async () => {
      const where = await elsewhere();
      const first = spawn(process.execPath, [host, JSON.stringify(where), HOLDS_LOCK], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      onTestFinished(() => void first.kill('SIGKILL'));
      const [line] = await once(createInterface({ input: first.stdout }), 'line');
      const handle = JSON.parse(line);
      first.kill('SIGKILL');
      await once(first, 'exit');

      await using environment = await attachEnvironment(where, handle);
      expect(environment.getId()).toBe(handle.id);
      expect(environment.handle()).toEqual(handle);
      expect(await environment.isRunning()).toBe(false);
      expect(await environment.poll()).toMatchObject({ reason: expect.stringContaining('has ended') });
      expect(await environment.readFile('kept')).toBe('by the first host');
      expect((await python(environment, LOCKED)).stdout).toBe('free\n');
      expect(await environment.isRunning()).toBe(true);
      expect(await environment.poll()).toBeUndefined();
    });

    it('ends with all its processes, and keeps its files', async () => {
      const environment = await openEnvironment(await elsewhere());
      const { stdout, exited } = await environment.exec(['python3', '-c', HOLDS_LOCK]);
      await once(stdout, 'data');
      await environment.terminate();
      expect(await exited).toMatchObject({ signal: expect.stringMatching(/SIGTERM|SIGKILL/) });
      expect(await environment.isRunning()).toBe(false);
      expect(await environment.poll()).toEqual({ reason: 'it was terminated' });
      expect(await environment.readFile('kept')).toBe('by the first host');
      await expect(environment.exec(['python3'])).rejects.toMatchObject({ code: 'ENVIRONMENT_ENDED' });
      await environment.terminate();
    });

    it('that is lost during a program says so, and the program has not succeeded', async () => {
      // A local one has nothing around it that could be lost.
      if (opened().where.kind === 'local') return;
      await using environment = await openEnvironment(await elsewhere());
      const { stdout, exited } = await environment.exec(['python3', '-c', HOLDS_LOCK]);
      await once(stdout, 'data');
      crashLast();
      expect(await exited).toEqual({ signal: 'SIGKILL' });
      expect(await environment.poll()).toMatchObject({ reason: expect.stringContaining('has ended') });
      await expect(environment.exec(['python3'])).rejects.toMatchObject({ code: 'ENVIRONMENT_ENDED' });
      expect(await environment.readFile('kept')).toBe('by the first host');
    });

    it('is not found by an invalid handle', async () => {
      const { where, environment } = opened();
      const handle = environment.handle();
      const bad = [
        null,
        {},
        { ...handle, kind: 'other' },
        { ...handle, id: '../x' },
        { ...handle, folders: {} },
        { ...handle, more: 1 },
      ];
      for (const other of bad) {
        await expect(attachEnvironment(where, other)).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
      }
    });
  });
}
