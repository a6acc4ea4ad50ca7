/** The settings of the model gateway: how agents get to their models, to which of them, and for how much. */

import { keyModes } from '../protocol/enums.ts';
import * as kinds from './kinds.ts';
import { providerToolModes } from './server-config.ts';
import { setting } from './setting.ts';

export { type GatewaySettings, providerToolModes } from './server-config.ts';

export const gatewaySettings = {
  keys: setting(
    '--keys <way>',
    `how agents get to models: ${keyModes.join(' or ')}; only with gateway do they hold no key`,
    kinds.oneOf(keyModes),
    { otherwise: 'gateway' },
  ),
  provider: setting(
    '--provider <name=url>',
    'where a provider (anthropic, openai, gemini) is, in place of its own address; https, or http on loopback',
    kinds.urls,
  ),
  models: setting(
    '--models <provider=model>',
    'a model that agents may use, with * for any text; all of a provider that has none here',
    kinds.words,
  ),
  providerField: setting(
    '--provider-field <provider=name>',
    'a field, type or beta that a provider has added to its API, for the gateway to let through',
    kinds.words,
  ),
  providerTools: setting(
    '--provider-tools <when>',
    'when agents may use what makes the provider reach other hosts (web search, remote MCP, image URLs): with-network, in sessions with the network of the machine, or always',
    kinds.oneOf(providerToolModes),
    { otherwise: 'with-network' },
  ),
  price: setting(
    '--price <model=in/out/read/write>',
    'USD for a million tokens of a model: input, output, read from the cache, written to it',
    kinds.words,
  ),
  sessionBudget: setting('--session-budget <usd>', 'what one session may spend on models', kinds.dollars),
  sessionTokens: setting('--session-tokens <n>', 'tokens that one session may use', kinds.tokens),
  userBudget: setting(
    '--user-budget <usd>',
    'what one user that has no quota of its own may spend on models a day',
    kinds.dollars,
  ),
  userTokens: setting('--user-tokens <n>', 'tokens that such a user may use a day', kinds.tokens),
};
