/** An installer has ended when its program has, whatever another process does with its pipes. */

import { describe, expect, it, test } from 'vitest';
import { PackageSource } from './package-source.ts';
import { explainFailure, progressLine, runInstaller } from './run-installer.ts';

test('a process that left the installer’s group and holds its pipes does not delay its end', async () => {
  const began = performance.now();
  const { ending, lines } = await runInstaller({
    command: '/bin/sh',
    args: ['-c', 'setsid sleep 20 & echo "$!"'],
    identity: { root: false, uid: 0, gid: 0 } as never,
    cwd: '/',
    env: { PATH: process.env.PATH ?? '' },
    timeoutMs: 60_000,
    signal: new AbortController().signal,
  });
  expect(ending).toEqual({ kind: 'ended', code: 0 });
  expect(performance.now() - began).toBeLessThan(10_000);
  process.kill(Number(lines[0]), 'SIGKILL');
}, 30_000);

const source = PackageSource.parse({ index: 'http://joe:pass@127.0.0.1:8/simple/' });
const failed = { kind: 'ended', code: 1 } as const;

describe('the reason of a failure', () => {
  it('is the text that pip marks as an error, without repetition', () => {
    const lines = ['Collecting x', 'ERROR: No x', 'WARNING: old', 'ERROR: No x', 'ERROR: Nothing found'];
    expect(explainFailure(failed, lines, source)).toEqual({ reason: 'No x; Nothing found', scope: 'some' });
  });

  it('is the last line where pip crashed', () => {
    const lines = ['ERROR: Exception:', 'Traceback (most recent call last):', '  File "x"', 'OSError: disk full'];
    expect(explainFailure(failed, lines, source).reason).toBe('OSError: disk full');
  });

  it('is the complete message of uv, without its drawing', () => {
    const lines = [
      'Using CPython 3.11.2',
      '  × No solution found when resolving dependencies:',
      '  ╰─▶ Because nope was not found in the package registry and you require nope, we can conclude',
      '      that your requirements are unsatisfiable.',
    ];
    expect(explainFailure(failed, lines, source).reason).toBe(
      'No solution found when resolving dependencies: Because nope was not found in the package registry and you require nope, we can conclude that your requirements are unsatisfiable.',
    );
  });

  it('names the index if it does not answer, and is the same for all packages', () => {
    const pip = [
      "WARNING: Retrying (Retry(total=1)) after connection broken by 'NewConnectionError('<x>: Failed to establish a new connection: [Errno 111] Connection refused')': /simple/x/",
      'ERROR: No matching distribution found for x',
    ];
    const uv = [
      'error: Request failed after 3 retries',
      '  Caused by: error sending request for url (http://127.0.0.1:8/simple/x/)',
      '  Caused by: tcp connect error: Connection refused (os error 111)',
    ];
    for (const lines of [pip, uv]) {
      const { reason, scope } = explainFailure(failed, lines, source);
      expect(scope).toBe('all');
      expect(reason).toContain('did not answer (http://127.0.0.1:8/simple/: Connection refused)');
    }
  });

  it('is not “no answer” if the index refused', () => {
    const lines = ['error: Failed to fetch: x', '  Caused by: HTTP status client error (401 Unauthorized) for url (x)'];
    const { reason, scope } = explainFailure(failed, lines, source);
    expect([reason, scope]).toEqual([expect.stringContaining('401 Unauthorized'), 'some']);
    expect(reason).not.toContain('did not answer');
  });

  it('contains no password and has a limit', () => {
    const lines = [`ERROR: http://joe:pass@127.0.0.1:8/ said ${'x'.repeat(5000)}`];
    const { reason } = explainFailure(failed, lines, source);
    expect(reason).not.toContain('pass');
    expect(reason.length).toBeLessThan(2000);
  });

  it('exists even if the installer prints nothing', () => {
    expect(explainFailure({ kind: 'ended', signal: 'SIGKILL' }, [], source).reason).toContain('SIGKILL');
    expect(explainFailure({ kind: 'not-started', reason: 'spawn EACCES' }, [], source).reason).toContain('EACCES');
  });
});

it('progress contains only lines that help a waiting person', () => {
  expect(progressLine('  Downloading http://joe:pass@127.0.0.1:8/x.whl (1 kB)', source)).toBe(
    'Downloading http://127.0.0.1:8/x.whl (1 kB)',
  );
  expect(progressLine('WARNING: something', source)).toBeUndefined();
});
