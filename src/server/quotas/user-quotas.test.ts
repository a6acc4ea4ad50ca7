import { describe, expect, test } from 'vitest';
import { failureOf } from '../../../test/contract/storage/samples.ts';
import type { Quotas, User } from '../../protocol/access-models.ts';
import { UserQuotas } from './user-quotas.ts';

const ada = 'ada~aaaaaaaaaaaa';

function quotasOf(own: Quotas, more: { defaults?: Quotas; elapsed?: () => number } = {}): UserQuotas {
  const user: User = { id: ada, name: 'ada', role: 'member', disabled: false, quotas: own, createdAt: 0, updatedAt: 0 };
  return new UserQuotas({ users: { find: async (id) => (id === ada ? user : undefined) }, ...more });
}

const nothing = { liveKernels: 0, memoryMb: 0, storageBytes: 0 };

describe('quotas', () => {
  test('are the user’s own, and the server’s where the user has none', async () => {
    const quotas = quotasOf({ liveKernels: 2 }, { defaults: { liveKernels: 1, memoryMb: 100 } });
    expect(await quotas.limitsOf(ada)).toEqual({ liveKernels: 2, memoryMb: 100, sessions: 1000 });
    expect((await failureOf(quotas.limitsOf('bob~bbbbbbbbbbbb'))).code).toBe('NOT_FOUND');
  });

  test('refuse what would be over the limit, with when to look again, and let pass what is just at it', async () => {
    const quotas = quotasOf({ storageBytes: 100, memoryMb: 0 });
    await quotas.check(ada, { storageBytes: 40 }, { ...nothing, storageBytes: 60 });
    await quotas.check(ada, {}, { ...nothing, storageBytes: 500 });
    await quotas.check(ada, { liveKernels: 1000 }, nothing);
    expect(await failureOf(quotas.check(ada, { storageBytes: 41 }, { ...nothing, storageBytes: 60 }))).toMatchObject({
      code: 'QUOTA_EXCEEDED',
      details: { quota: 'storageBytes', limit: 100, used: 60, asked: 41, retryAfterMs: 60_000 },
    });
    expect((await failureOf(quotas.check(ada, { memoryMb: 1 }, nothing))).code).toBe('QUOTA_EXCEEDED');
  });
});

describe('executions', () => {
  test('are counted over the last minute, and the refusal tells when the next may come', async () => {
    let now = 0;
    const quotas = quotasOf({ executionsPerMinute: 2 }, { elapsed: () => now });
    await quotas.countExecution(ada);
    now = 20_000;
    await quotas.countExecution(ada);
    now = 30_000;
    expect(await failureOf(quotas.countExecution(ada))).toMatchObject({
      code: 'QUOTA_EXCEEDED',
      details: { quota: 'executionsPerMinute', limit: 2, used: 2, retryAfterMs: 30_000 },
    });
    now = 60_000;
    await quotas.countExecution(ada);
    expect((await failureOf(quotas.countExecution(ada))).details).toMatchObject({ retryAfterMs: 20_000 });
  });

  test('at a limit of none are all refused', async () => {
    const error = await failureOf(quotasOf({ executionsPerMinute: 0 }).countExecution(ada));
    expect(error).toMatchObject({ code: 'QUOTA_EXCEEDED', details: { retryAfterMs: 60_000 } });
  });
});
