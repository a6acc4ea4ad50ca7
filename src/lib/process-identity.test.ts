import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { newProcessIdentity, ownProcess, processState } from './process-identity.ts';

const linux = process.platform === 'linux';

/** The words of an identity, one of them changed. */
function changed(index: number, word: string): string {
  return newProcessIdentity().split('-').with(index, word).join('-');
}

describe('an identity', () => {
  it('is one word for a file name, and never the same twice', () => {
    const [one, other] = [newProcessIdentity(), newProcessIdentity()];
    expect(one).not.toBe(other);
    for (const identity of [one, other]) expect(identity).toMatch(/^[0-9a-f-]{10,100}$/);
  });

  it.runIf(linux)('is alive while its process is', async () => {
    expect(processState(newProcessIdentity())).toBe('alive');
    const child = spawn('sleep', ['600']);
    expect(processState(changed(0, String(child.pid)))).toBe('dead'); // another process with that pid
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(processState(changed(0, String(child.pid)))).toBe('dead');
  });

  it.runIf(linux)('is dead if its pid belongs to a process that started at another time', () => {
    expect(processState(changed(1, '1'))).toBe('dead');
  });

  it('is unknown if it runs after another boot, in another container, or cannot be read', () => {
    expect(processState(changed(2, 'abc'))).toBe('unknown');
    expect(processState(changed(3, '1'))).toBe('unknown');
    for (const identity of ['', 'x', '1-2-3', '../../x']) expect(processState(identity)).toBe('unknown');
  });
});

describe('the folder of a build, named after its process', () => {
  it.runIf(linux)('distinguishes a process from others with its pid', () => {
    const own = ownProcess();
    const [pid = '', started = '', ...place] = own.split('-');
    expect(processState(`${own}.abcdef`)).toBe('alive');
    expect(processState([pid, Number(started) + 1, ...place].join('-'))).toBe('dead');
    expect(processState(['4194305', started, ...place].join('-'))).toBe('dead');
  });

  it('makes no statement about other boots, other containers and other names', () => {
    const [pid, started, boot, namespace] = ownProcess().split('-');
    expect(processState([pid, started, 'abc', namespace].join('-'))).toBe('unknown');
    expect(processState([pid, started, boot, '1'].join('-'))).toBe('unknown');
    expect(processState('lost+found')).toBe('unknown');
  });
});
