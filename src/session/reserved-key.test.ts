import { describe, expect, it } from 'vitest';
import { KernelPool } from './kernel-pool.ts';
import { Session } from './session.ts';

const refused = { code: 'INVALID_OPTIONS', message: expect.stringContaining('must not begin with ~') };

describe('an agent key that begins with ~, as those of a server’s users do', () => {
  it('opens no session', async () => {
    await expect(Session.open({ agentKey: '~ada~abcdefghijkl/mine' })).rejects.toMatchObject(refused);
  });

  it('gets no kernel of a pool, by any method', async () => {
    await using pool = new KernelPool();
    await expect(pool.acquire('~x')).rejects.toMatchObject(refused);
    await expect(pool.fork('x', { agentKey: '~x' })).rejects.toMatchObject(refused);
    await expect(pool.fork('~x', { agentKey: 'x' })).rejects.toMatchObject(refused);
    await expect(pool.shutdown('~x')).rejects.toMatchObject(refused);
    expect(() => pool.release('~x')).toThrow(expect.objectContaining(refused));
  });
});
