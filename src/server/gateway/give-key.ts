/** The other way to a model, by name: the key itself goes to the process of the agent, when it asks for it. */

import type { KeyMode, Provider } from '../../protocol/enums.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { SessionTokens, TokenBinding } from '../access/session-tokens.ts';
import type { Credentials } from '../credentials/credentials.ts';

export interface KeyGiver {
  readonly keys: KeyMode;
  readonly tokens: Pick<SessionTokens, 'check'>;
  readonly credentials: Pick<Credentials, 'reveal'>;
}

/** FORBIDDEN with the gateway, which is there so that no agent holds a key. The key is that of whoever prompts. */
export async function giveKey(
  { keys, tokens, credentials }: KeyGiver,
  { token, provider, expected }: { token: string; provider: Provider; expected?: Partial<TokenBinding> },
): Promise<string> {
  const { userId } = await tokens.check(token, expected);
  if (keys === 'just-in-time') return await credentials.reveal(userId, provider);
  throw new CellaError('FORBIDDEN', 'Keys are not given out here: models are reached through the gateway.', {
    advice: 'Call the model at the gateway, with the session token as its key; see docs/gateway.md.',
  });
}
