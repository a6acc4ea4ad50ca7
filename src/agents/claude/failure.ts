/** What went wrong with a turn, in codes that are the same for every agent. */

import type { AgentFailure } from '../../protocol/agent-events.ts';
import { CellaError, errorCodes } from '../../protocol/errors.ts';
import { boundedText } from '../bounded.ts';

/** The program's own words for what the provider said. */
const REFUSED = new Set([
  'authentication_failed',
  'oauth_org_not_allowed',
  'account_on_hold',
  'verification_required',
  'cloud_credential_error',
  'invalid_request',
  'model_not_found',
]);
const LIMITED = new Set(['rate_limit', 'billing_error']);
/** The program's own advice, which has a person look at an address that is inside of its sandbox. */
const OWN_ADVICE = /\s*This is a server-side issue, usually temporary.*$/s;

export function providerFailure(word: string, said: string): AgentFailure {
  // What the gateway says has the advice in it that stands beside the message here.
  const message = said.replace(OWN_ADVICE, '').replace(errorCodes.PROVIDER_FAILED.advice, '');
  if (REFUSED.has(word)) return failureOf(new CellaError('PROVIDER_REFUSED', message));
  if (LIMITED.has(word)) return failureOf(new CellaError('PROVIDER_LIMITED', message));
  return failureOf(new CellaError('PROVIDER_FAILED', message));
}

export function failureOf({ code, message, advice }: CellaError): AgentFailure {
  return { code, message: boundedText(message.trim(), 4000), advice };
}
