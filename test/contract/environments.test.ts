import { describe } from 'vitest';
import { scratchFolder } from '../support/session.ts';
import { environmentContract } from './environments.ts';

describe.each(['local', 'sandbox'] as const)('a %s environment', (kind) => {
  environmentContract(async () => ({ kind, folder: await scratchFolder() }));
});
