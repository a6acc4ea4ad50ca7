/** From what was written of the gateway to what it goes by. What is wrong keeps the server from starting. */

import { type KeyMode, type Provider, providers } from '../../protocol/enums.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { GatewaySettings, providerToolModes } from '../../settings/settings-table.ts';
import { isLoopback } from '../exposure.ts';
import { patternOf } from './pattern.ts';
import { type PriceOf, pricesOf } from './prices.ts';

export interface GatewayRules {
  readonly keys: KeyMode;
  readonly addresses: Readonly<Record<Provider, URL>>;
  allows(provider: Provider, model: string): boolean;
  readonly priceOf: PriceOf;
  /** Fields, types and betas of a provider's API that the operator has added to the gateway's own lists. */
  addedFields(provider: Provider): ReadonlySet<string>;
  /** When a provider may reach other hosts for an agent. */
  readonly providerTools: (typeof providerToolModes)[number];
  /** Of one session, for as long as there is it. */
  readonly session: { readonly usd?: number | undefined; readonly tokens?: number | undefined };
}

const defaults: Readonly<Record<Provider, string>> = {
  anthropic: 'https://api.anthropic.com',
  openai: 'https://api.openai.com',
  gemini: 'https://generativelanguage.googleapis.com',
};

export function gatewayRules(settings: GatewaySettings = {}): GatewayRules {
  const { keys = 'gateway', providers: given = [], models = [], prices = [], sessionUsd, sessionTokens } = settings;
  const { fields: lines = [], providerTools = 'with-network' } = settings;
  const added = addedOf(lines);
  const allowed = models
    .map((line) => pair('--models', line))
    .map(({ provider, text }) => ({ provider, matches: patternOf(text) }));
  return {
    keys,
    addresses: addressesOf(given),
    allows: (provider, model) => {
      const own = allowed.filter((each) => each.provider === provider);
      return own.length === 0 || own.some(({ matches }) => matches(model));
    },
    priceOf: pricesOf(prices),
    addedFields: (provider) => added[provider],
    providerTools,
    session: { usd: sessionUsd, tokens: sessionTokens },
  };
}

function addressesOf(lines: readonly string[]): Record<Provider, URL> {
  const texts = { ...defaults };
  for (const line of lines) {
    const { provider, text } = pair('--provider', line);
    texts[provider] = text;
  }
  return { anthropic: addressOf(texts.anthropic), openai: addressOf(texts.openai), gemini: addressOf(texts.gemini) };
}

/** What decides in the place of a person: an agent takes it for the permission that it has to ask for. */
const VERDICT = /safeguard|verdict|approv|permission|consent|dangerous|auto-mode|afk-mode/i;

function addedOf(lines: readonly string[]): Record<Provider, Set<string>> {
  const added = { anthropic: new Set<string>(), openai: new Set<string>(), gemini: new Set<string>() };
  for (const line of lines) {
    const { provider, text } = pair('--provider-field', line);
    if (!/^[\w.@-]{1,100}$/.test(text))
      throw invalid('A name of --provider-field has other characters than letters, digits, _ . @ -.');
    if (VERDICT.test(text))
      throw invalid(`--provider-field does not take "${text}": no provider decides in the place of a person.`);
    added[provider].add(text);
  }
  return added;
}

/** A key crosses no network in the clear. */
function addressOf(text: string): URL {
  const url = URL.parse(text);
  const bare = url && url.username === '' && url.password === '' && url.search === '' && url.hash === '';
  const safe =
    url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url.hostname.replace(/^\[|\]$/g, '')));
  if (bare && safe) return url;
  // It may hold a password, so that it is not repeated.
  throw invalid('An address of --provider is not https, nor http on loopback, or holds a name, a password or a query.');
}

function pair(flag: string, line: string): { readonly provider: Provider; readonly text: string } {
  const at = line.indexOf('=');
  const provider = providers.find((each) => each === line.slice(0, Math.max(0, at)));
  const text = line.slice(at + 1);
  if (provider && text !== '') return { provider, text };
  throw invalid(`What ${flag} takes begins with ${providers.join('=, ')}=, and something follows.`);
}

const invalid = (message: string): CellaError =>
  new CellaError('INVALID_OPTIONS', message, { advice: 'Correct it; see docs/gateway.md.' });
