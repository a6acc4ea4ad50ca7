import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { look, newHolder, ownProcess } from './identity.ts';

const linux = process.platform === 'linux';

/** The words of a holder, one of them changed. */
function changed(index: number, word: string): string {
  return newHolder().split('-').with(index, word).join('-');
}

describe('a holder', () => {
  it('is one word for a file name, and never the same twice', () => {
    const [one, other] = [newHolder(), newHolder()];
    expect(one).not.toBe(other);
    for (const holder of [one, other]) expect(holder).toMatch(/^[0-9a-f-]{10,100}$/);
  });

  it.runIf(linux)('is alive while its process is', async () => {
    expect(look(newHolder())).toBe('alive');
    const child = spawn('sleep', ['600']);
    expect(look(changed(0, String(child.pid)))).toBe('dead'); // another process with that pid
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(look(changed(0, String(child.pid)))).toBe('dead');
  });

  it.runIf(linux)('is dead where its pid belongs to a process that started at another time', () => {
    expect(look(changed(1, '1'))).toBe('dead');
  });

  it('is unseen where it runs after another boot, in another container, or cannot be read', () => {
    expect(look(changed(2, 'abc'))).toBe('unseen');
    expect(look(changed(3, '1'))).toBe('unseen');
    for (const holder of ['', 'x', '1-2-3', '../../x']) expect(look(holder)).toBe('unseen');
  });
});

describe('the folder of a build, named after its process', () => {
  it.runIf(linux)('tells a process from others with its pid', () => {
    const own = ownProcess();
    const [pid = '', started = '', ...place] = own.split('-');
    expect(look(`${own}.abcdef`)).toBe('alive');
    expect(look([pid, Number(started) + 1, ...place].join('-'))).toBe('dead');
    expect(look(['4194305', started, ...place].join('-'))).toBe('dead');
  });

  it('says nothing of other boots, other containers and other names', () => {
    const [pid, started, boot, namespace] = ownProcess().split('-');
    expect(look([pid, started, 'abc', namespace].join('-'))).toBe('unseen');
    expect(look([pid, started, boot, '1'].join('-'))).toBe('unseen');
    expect(look('lost+found')).toBe('unseen');
  });
});
