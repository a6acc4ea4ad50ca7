import { describe } from 'vitest';
import { scratchFolder } from '../../support/kernels/session.ts';
import { environmentContract } from './environment.ts';

describe.each(['local', 'sandbox'] as const)('a %s environment', (kind) => {
  environmentContract(async () => ({ kind, folder: await scratchFolder() }));
});
