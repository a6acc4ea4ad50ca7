/** Programs of an environment: argv, variables, input, output, and how they end. */

import { once } from 'node:events';
import { buffer, text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import type { Environment } from '../../../src/environments/environment.ts';
import { linesOf, python } from '../../support/kernels/environments.ts';

/** Ends only by SIGKILL; whoever holds the lock on the file `lock` lives. `ready` when both do. */
const STUBBORN = `
import fcntl, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        lock = open("lock", "w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(writer, b"x")
        time.sleep(600)
    os._exit(0)
os.read(reader, 1)
print("ready", flush=True)
time.sleep(600)
`;

/** Whether somebody holds it. */
export const LOCKED = `
import fcntl
try:
    fcntl.flock(open("lock", "w"), fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("free")
except BlockingIOError:
    print("locked")
`;

export function environmentExecContract(environment: () => Environment): void {
  describe('programs', () => {
    it('get their arguments unchanged: commands were joined into shell strings', async () => {
      const args = ['a b', '"', "'", '$(touch pwned)', '`x`', '*', '\n', '', '-c', 'ü\u{1f40d}', ';exit 3', '|'];
      const { stdout, exit } = await python(environment(), 'import json, sys\nprint(json.dumps(sys.argv[1:]))', {
        args,
      });
      expect(JSON.parse(stdout)).toEqual(args);
      expect(exit).toEqual({ code: 0 });
      expect(await environment().listFiles('', 'pwned')).toEqual([]);
    });

    it('see the given variables, and none of this process', async () => {
      process.env.CELLA_TEST_SECRET = 'sk-canary';
      const env = { GIVEN: 'a "b"\n$(c)' };
      const { stdout } = await python(environment(), 'import json, os\nprint(json.dumps(dict(os.environ)))', { env });
      delete process.env.CELLA_TEST_SECRET;
      const seen = JSON.parse(stdout);
      expect(seen).toMatchObject({ ...env, HOME: environment().getBasePaths().HOME_DIR });
      expect(stdout).not.toContain('canary');
      expect(Object.keys(seen).filter((name) => /VITEST|NODE_|npm_/.test(name))).toEqual([]);
    });

    it('start in the workspace, or in a folder of it', async () => {
      const { WORKSPACE_DIR, HOME_DIR } = environment().getBasePaths();
      await environment().writeFile('here/file', 'x');
      const cwd = async (path?: string) =>
        (
          await python(environment(), 'import os\nprint(os.getcwd())', path === undefined ? {} : { cwd: path })
        ).stdout.trim();
      expect(await cwd()).toBe(WORKSPACE_DIR);
      expect(await cwd('here')).toBe(`${WORKSPACE_DIR}/here`);
      expect(await cwd(HOME_DIR)).toBe(HOME_DIR);
      await expect(cwd('none')).rejects.toMatchObject({ code: 'EXEC_FAILED' });
      await expect(cwd('../..')).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
      await expect(cwd(`${WORKSPACE_DIR}-evil`)).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    });

    it('that cannot start say so', async () => {
      const start = async (argv: string[], env = {}) => (await environment().exec(argv, { env })).exited;
      await expect(start(['no-such-program'])).rejects.toMatchObject({ code: 'EXEC_FAILED' });
      await expect(start(['/etc/passwd'])).rejects.toMatchObject({ code: 'EXEC_FAILED' });
      await expect(start([])).rejects.toMatchObject({ code: 'EXEC_FAILED' });
      await expect(start(['python3', 'nul\0byte'])).rejects.toMatchObject({ code: 'EXEC_FAILED' });
      await expect(start(['python3'], { 'A=B': 'x' })).rejects.toMatchObject({ code: 'EXEC_FAILED' });
    });

    it('end with an exit code or a signal: a signal is never exit code 0', async () => {
      const end = async (script: string) => (await python(environment(), `import os, signal, sys\n${script}`)).exit;
      expect(await end('sys.exit(0)')).toEqual({ code: 0 });
      expect(await end('sys.exit(3)')).toEqual({ code: 3 });
      expect(await end('os.kill(os.getpid(), signal.SIGKILL)')).toEqual({ signal: 'SIGKILL' });
      expect(await end('signal.signal(15, signal.SIG_DFL)\nos.kill(os.getpid(), 15)')).toEqual({ signal: 'SIGTERM' });
    });

    it('read text and bytes as their input, and nothing without input', async () => {
      const echo = 'import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read())';
      expect((await python(environment(), echo)).stdout).toBe('');
      expect((await python(environment(), echo, { stdin: '' })).stdout).toBe('');
      expect((await python(environment(), echo, { stdin: 'grüße\n' })).stdout).toBe('grüße\n');
      const bytes = Buffer.alloc(3_000_000, 'ab\0\xff', 'latin1');
      const { stdout } = await environment().exec(['python3', '-c', echo], { stdin: bytes });
      expect((await buffer(stdout)).equals(bytes)).toBe(true);
      // Nobody need read what is there to be read.
      expect((await python(environment(), 'pass', { stdin: bytes })).exit).toEqual({ code: 0 });
    });

    it('can exchange lines with the caller', async () => {
      const script = 'import sys\nfor line in sys.stdin: print("heard", line.strip(), flush=True)\nprint("over")';
      const { stdin, stdout, exited } = await environment().exec(['python3', '-c', script], { stdin: 'pipe' });
      const lines = linesOf(stdout);
      for (const word of ['one', 'two']) {
        stdin?.write(`${word}\n`);
        expect(await lines.next()).toBe(`heard ${word}`);
      }
      stdin?.end();
      expect(await lines.next()).toBe('over');
      expect(await lines.next()).toBeUndefined();
      expect(await exited).toEqual({ code: 0 });
    });

    it('have two separate, complete outputs, which can be read after the end', async () => {
      const script = 'import sys\nsys.stdout.buffer.write(bytes(range(256)) * 100)\nsys.stderr.write("e" * 20000)';
      const { stdout, stderr, exited } = await environment().exec(['python3', '-c', script]);
      await exited;
      const wanted = Buffer.from(Array.from({ length: 25_600 }, (_, index) => index % 256));
      expect((await buffer(stdout)).equals(wanted)).toBe(true);
      expect(await text(stderr)).toBe('e'.repeat(20_000));
      const large = await python(environment(), 'import sys\nfor _ in range(80): sys.stdout.write("x" * 100_000)');
      expect(large.stdout.length).toBe(8_000_000);
    });

    it('wait if nobody reads', async () => {
      const script = `
import os, sys
os.set_blocking(1, False)
sent = 0
try:
    while sent < 50_000_000: sent += os.write(1, b"x" * 65536)
except BlockingIOError: pass
print("waits" if sent < 50_000_000 else "all taken", file=sys.stderr)`;
      const { stdout, stderr } = await environment().exec(['python3', '-c', script]);
      expect(await text(stderr)).toBe('waits\n');
      stdout.destroy();
    });

    it('run side by side', async () => {
      const runs = Array.from({ length: 8 }, (_, index) =>
        python(environment(), 'import sys\nprint(sys.argv[1])', { args: [`${index}`] }),
      );
      expect((await Promise.all(runs)).map(({ stdout }) => stdout.trim())).toEqual([...'01234567']);
    });

    it('get SIGTERM before they are killed', async () => {
      const script = `
import os, signal, time
def stop(*_):
    os.write(1, b"asked\\n")
    os._exit(7)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
time.sleep(600)`;
      const { stdout, exited, kill } = await environment().exec(['python3', '-c', script]);
      const lines = linesOf(stdout);
      expect(await lines.next()).toBe('ready');
      kill({ graceMs: 60_000 });
      expect(await lines.next()).toBe('asked');
      expect(await exited).toEqual({ code: 7 });
      kill();
    });

    it('are killed with everything that they started, even detached processes that ignore SIGTERM', async () => {
      const { stdout, exited, kill } = await environment().exec(['python3', '-c', STUBBORN]);
      await once(stdout, 'data');
      expect((await python(environment(), LOCKED)).stdout).toBe('locked\n');
      kill({ graceMs: 50 });
      expect(await exited).toEqual({ signal: 'SIGKILL' });
      expect((await python(environment(), LOCKED)).stdout).toBe('free\n');
    });

    it('leave nothing behind when they end', async () => {
      const script = STUBBORN.replace('print("ready", flush=True)\ntime.sleep(600)', '');
      expect((await python(environment(), script)).exit).toEqual({ code: 0 });
      expect((await python(environment(), LOCKED)).stdout).toBe('free\n');
    });

    it('end when their caller’s signal aborts', async () => {
      const over = new AbortController();
      const script = 'import time\nprint("ready", flush=True)\ntime.sleep(600)';
      const { stdout, exited } = await environment().exec(['python3', '-c', script], { signal: over.signal });
      await once(stdout, 'data');
      over.abort();
      expect(await exited).toEqual({ signal: 'SIGTERM' });
      await expect(environment().exec(['python3'], { signal: over.signal })).rejects.toThrow();
    });
  });
}
