import { expect, test } from 'vitest';
import { errorCodes } from '../../protocol/error-codes.ts';
import { providerFailure } from './block-events.ts';

test('an unreachable provider is reported once, without an address of the sandbox', () => {
  const { advice } = errorCodes.PROVIDER_FAILED;
  const reason = 'API Error: 502 The provider of the model failed: it cannot be reached (ENOTFOUND).';
  const own =
    'This is a server-side issue, usually temporary — try again in a moment. ' +
    'If it persists, check your inference gateway (127.0.0.1:35399).';
  expect(providerFailure('server_error', `${reason} ${advice} ${own}`)).toEqual({
    code: 'PROVIDER_FAILED',
    message: reason,
    advice,
  });
});
