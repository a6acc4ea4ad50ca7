import { expect, it } from 'vitest';
import { connectEngine } from '../../src/executors/container/engine.ts';
import { sharedEngine } from '../support/shared-docker.ts';

it('starts', async () => {
  const engine = await connectEngine(await sharedEngine());
  expect(engine.name).toBe('docker');
  expect(engine.version).toMatch(/^20/);
});
