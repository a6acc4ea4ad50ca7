/** What went wrong with a turn, in codes that are the same for every agent. */

import type { AgentFailure } from '../../protocol/agent/events.ts';
import { CellaError, type ErrorCode, errorCodes } from '../../protocol/errors.ts';
import { boundedText } from '../bounded.ts';

/** The program's own words for what the provider said. */
const byWord: ReadonlyMap<string, ErrorCode> = new Map([
  ['authentication_failed', 'PROVIDER_REFUSED'],
  ['oauth_org_not_allowed', 'PROVIDER_REFUSED'],
  ['account_on_hold', 'PROVIDER_REFUSED'],
  ['verification_required', 'PROVIDER_REFUSED'],
  ['cloud_credential_error', 'PROVIDER_REFUSED'],
  ['invalid_request', 'PROVIDER_REFUSED'],
  ['model_not_found', 'PROVIDER_REFUSED'],
  ['billing_error', 'PROVIDER_LIMITED'],
  ['rate_limit', 'PROVIDER_LIMITED'],
]);

export function failureOf(code: ErrorCode, message: string): AgentFailure {
  return { code, message: boundedText(message.trim(), 4000), advice: errorCodes[code].advice };
}

export function providerFailure(word: string, message: string): AgentFailure {
  return failureOf(byWord.get(word) ?? 'PROVIDER_FAILED', message);
}

export function failureOfError(error: unknown): AgentFailure {
  if (!(error instanceof CellaError)) return failureOf('AGENT_FAILED', String(error));
  const { code, message, advice } = error;
  return { code, message: boundedText(message, 4000), advice };
}
