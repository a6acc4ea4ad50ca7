import { describe, expect, it } from 'vitest';
import { GroupSync } from './group-sync.ts';

/** Flushes that end when the test says so. */
function flushes() {
  const begun: PromiseWithResolvers<void>[] = [];
  const sync = new GroupSync(() => {
    const flush = Promise.withResolvers<void>();
    begun.push(flush);
    return flush.promise;
  });
  return { begun, sync };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('waiting for the disk in groups', () => {
  it('serves all who asked before the flush began with one, and those who ask later with the next', async () => {
    const { begun, sync } = flushes();
    const ended: string[] = [];
    const ask = (name: string) => sync.reached().then(() => ended.push(name));
    const first = [ask('a'), ask('b')];
    await turn();
    const second = [ask('c'), ask('d'), ask('e')];
    await turn();
    expect(begun).toHaveLength(1);
    begun[0]?.resolve();
    await Promise.all(first);
    await turn();
    expect(ended).toEqual(['a', 'b']);
    expect(begun).toHaveLength(2);
    begun[1]?.resolve();
    await Promise.all(second);
    expect(ended).toEqual(['a', 'b', 'c', 'd', 'e']);
  });

  it('tells a failure to those who waited for it, and to no others', async () => {
    const { begun, sync } = flushes();
    const first = sync.reached();
    await turn();
    const second = sync.reached();
    begun[0]?.reject(new Error('disk'));
    await expect(first).rejects.toThrow('disk');
    await turn();
    begun[1]?.resolve();
    await second;
  });
});
