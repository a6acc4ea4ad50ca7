/** Bootstrap configs: JSON by which another trusted process finds the same storage. */

import { expect, it, onTestFinished } from 'vitest';
import { storageFromBootstrap } from '../../../src/storage/open-storage.ts';
import { type OpenStorage, onePlace } from './samples.ts';

export function bootstrapContract(open: OpenStorage): void {
  it('open the same storage, also as JSON', async () => {
    const storage = await onePlace(open)();
    await storage.deps.add('requests');
    const config = JSON.parse(JSON.stringify(storage.toBootstrapConfig()));
    const again = await storageFromBootstrap(config);
    onTestFinished(() => again.close());
    expect(again.constructor).toBe(storage.constructor);
    expect(await again.deps.list()).toEqual(['requests']);
    await again.tools.put('grep', 'x');
    expect((await storage.tools.get('grep'))?.text).toBe('x');
    expect(again.toBootstrapConfig()).toEqual(config);
  });
}
