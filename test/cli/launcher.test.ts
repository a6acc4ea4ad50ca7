/** bin/cella.cjs: finds a Node that is recent enough, and is invisible where it has to start another. */

import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { descendants } from '../../bench/processes.ts';
import { Cella, launcher } from '../support/cli/command.ts';

const cella = new Cella();
const folder = mkdtempSync(join(tmpdir(), 'cella-launcher-'));
afterAll(() => {
  cella[Symbol.dispose]();
  rmSync(folder, { recursive: true });
});

/** This Node says of itself that it is an old one; the one that it starts does not. */
const old = join(folder, 'old.cjs');
writeFileSync(old, "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.0.0' } });\n");
const nodeFlags = ['--require', old];
const dist = join(dirname(dirname(launcher)), 'dist');
const endless = ['run', '-c', 'print("ready", flush=True)\nwhile True: pass'];

describe('on an older Node', () => {
  it('passes on arguments, streams and the exit code', async () => {
    const words = ['run', '-c', 'import sys; print(input()); sys.exit(3)'];
    expect(await cella.run(words, { nodeFlags, input: 'line\n' })).toEqual({ code: 3, out: 'line\n', err: '' });
  });

  it('is named by its own name in process lists', async () => {
    const started = cella.start(endless, { nodeFlags });
    await started.says('ready');
    expect((await cella.run(['run', '-c', '1'], { nodeFlags })).err).toContain('(cella run)');
    started.child.kill('SIGTERM');
    expect(await started.ended).toBe(143);
  });

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)('passes %s on, and ends after the program', async (signal, exitCode) => {
    const started = cella.start(endless, { nodeFlags });
    await started.says('ready');
    started.child.kill(signal);
    expect(await started.ended).toBe(exitCode);
  });

  it('leaves nothing behind when it is killed', async () => {
    const started = cella.start(endless, { nodeFlags });
    await started.says('ready');
    const family = descendants(started.child.pid ?? 0).map(({ pid }) => pid);
    expect(family.length).toBeGreaterThan(1);
    started.child.kill('SIGKILL');
    // The streams close when the program that it started is gone too.
    expect(await started.ended).toBe('SIGKILL');
    await vi.waitFor(() => expect(family.filter(isAlive)).toEqual([]), { timeout: 30_000 });
  });

  it('says what it needs if there is no other Node', async () => {
    cpSync(launcher, join(folder, 'bin', 'cella.cjs'));
    cpSync(old, join(folder, 'dist', 'main.js'));
    const { code, err } = await cella.run(['--version'], {
      nodeFlags: [...nodeFlags, join(folder, 'bin', 'cella.cjs')],
    });
    expect(code).toBe(1);
    expect(err).toContain('Node 24 or later is needed');
  });
});

it('says how to build a checkout that is not built', async () => {
  cpSync(launcher, join(folder, 'unbuilt', 'bin', 'cella.cjs'));
  const { code, err } = await cella.run(['--version'], { nodeFlags: [join(folder, 'unbuilt', 'bin', 'cella.cjs')] });
  expect(code).toBe(1);
  expect(err).toContain('npm run build');
});

it('names npm ci if a checkout has no packages', () => {
  const bare = join(folder, 'bare');
  for (const name of ['src', 'scripts'])
    cpSync(join(dirname(dirname(launcher)), name), join(bare, name), { recursive: true });
  const build = spawnSync(process.execPath, [join(bare, 'scripts', 'build.mjs'), '--if-stale'], { encoding: 'utf8' });
  expect([build.status, build.stderr]).toEqual([1, expect.stringMatching(/^.*Run: npm ci\n$/)]);
});

it('answers --help without loading more than a fifth of the program', async () => {
  const coverage = join(folder, 'loaded');
  const { code, out } = await cella.run(['--help'], { env: { NODE_V8_COVERAGE: coverage } });
  expect([code, out.includes('Examples:')]).toEqual([0, true]);
  const loaded = readdirSync(coverage).flatMap((name) => scriptsIn(readFileSync(join(coverage, name), 'utf8')));
  expect(loaded).toContain(join(dist, 'main.js'));
  const bundle = readdirSync(join(dist, 'bundle')).map((name) => join(dist, 'bundle', name));
  expect(bytesOf(loaded)).toBeLessThan(bytesOf(bundle) / 5);
});

/** The files of ours in a report of V8. */
function scriptsIn(report: string): string[] {
  const { result }: { result: { url: string }[] } = JSON.parse(report);
  return result.filter(({ url }) => url.startsWith('file:')).map(({ url }) => fileURLToPath(url));
}

function bytesOf(files: readonly string[]): number {
  return files.reduce((sum, file) => sum + statSync(file).size, 0);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
