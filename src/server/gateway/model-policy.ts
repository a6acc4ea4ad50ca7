/** Which models agents may call, at which addresses and prices. The server does not start with invalid settings. */

import { type KeyMode, type Provider, providers } from '../../protocol/enums.ts';
import { CellaError } from '../../protocol/errors.ts';
import { type ServerConfig, serverDefaults } from '../../settings/server-config.ts';
import type { ProviderToolMode } from '../../settings/settings-table.ts';
import { isLoopback } from '../startup-checks.ts';
import { providerAdapters } from './provider-api.ts';
import type { TokenCounts } from './providers/provider.ts';

export interface ModelPolicy {
  readonly keys: KeyMode;
  readonly addresses: Readonly<Record<Provider, URL>>;
  allows(provider: Provider, model: string): boolean;
  readonly priceOf: PriceOf;
  /** Fields, types and betas of a provider's API that the operator added to the gateway's lists. */
  addedFields(provider: Provider): ReadonlySet<string>;
  /** When a provider may reach other hosts for an agent. */
  readonly providerTools: ProviderToolMode;
  /** Per session, for its whole life. */
  readonly session: { readonly usd?: number | undefined; readonly tokens?: number | undefined };
}

/** Takes the operator's settings, with defaults for missing ones. */
export function modelPolicy(settings: Partial<ServerConfig['gateway']> = {}): ModelPolicy {
  const all = { ...serverDefaults.gateway, ...settings };
  const { keys, providers: given, models, fields, prices, providerTools, sessionUsd, sessionTokens } = all;
  const added = addedOf(fields);
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
  const given = new Map(lines.map((line) => pair('--provider', line)).map(({ provider, text }) => [provider, text]));
  return forEachProvider((provider) => addressOf(given.get(provider) ?? providerAdapters[provider].address));
}

function forEachProvider<T>(make: (provider: Provider) => T): Record<Provider, T> {
  return Object.fromEntries(providers.map((provider) => [provider, make(provider)])) as Record<Provider, T>;
}

/** Fields with which a provider would decide in place of a person: an agent would take them for a permission. */
const VERDICT = /safeguard|verdict|approv|permission|consent|dangerous|auto-mode|afk-mode/i;

function addedOf(lines: readonly string[]): Record<Provider, Set<string>> {
  const added = forEachProvider(() => new Set<string>());
  for (const line of lines) {
    const { provider, text } = pair('--provider-field', line);
    if (!/^[\w.@-]{1,100}$/.test(text))
      throw invalid('A name of --provider-field has other characters than letters, digits, _ . @ -.');
    if (VERDICT.test(text))
      throw invalid(`--provider-field does not accept "${text}": providers cannot decide in place of a person.`);
    added[provider].add(text);
  }
  return added;
}

/** Keys must not cross a network unencrypted. */
function addressOf(text: string): URL {
  const url = URL.parse(text);
  const bare = url && url.username === '' && url.password === '' && url.search === '' && url.hash === '';
  const safe =
    url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url.hostname.replace(/^\[|\]$/g, '')));
  if (bare && safe) return url;
  // The address may contain a password, so the error does not repeat it.
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

export interface Price {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
}

const MILLION = 1_000_000;

/**
 * model: input / output / cache read / cache write. Claude's prices are those that its program uses in version 0.3.325 of
 * the SDK, with the cost of a five-minute cache. A model has its full name if a later model's name begins with it.
 */
const listed: readonly string[] = [
  'claude-opus-5-5=4/20/0.2/5',
  'claude-opus-5=5/25/0.5/6.25',
  'claude-opus-4-8*=5/25/0.5/6.25',
  'claude-opus-4-7*=5/25/0.5/6.25',
  'claude-opus-4-6*=5/25/0.5/6.25',
  'claude-opus-4-5*=5/25/0.5/6.25',
  'claude-opus-4-1*=15/75/1.5/18.75',
  'claude-opus-4-0*=15/75/1.5/18.75',
  'claude-opus-4-2025*=15/75/1.5/18.75',
  'claude-sonnet-5-5=2/10/0.1/2.5',
  'claude-sonnet-5=2/10/0.2/2.5',
  'claude-sonnet-4*=3/15/0.3/3.75',
  'claude-3-7-sonnet*=3/15/0.3/3.75',
  'claude-3-5-sonnet*=3/15/0.3/3.75',
  // For prompts up to 100,000 tokens; longer prompts cost five times as much.
  'claude-haiku-5-5=0.1/0.5/0.01/0.125',
  'claude-haiku-4*=1/5/0.1/1.25',
  'claude-3-5-haiku*=0.8/4/0.08/1',
  'claude-fable-5-2=8/40/0.2/10',
  'claude-fable-5-1=10/50/0.25/12.5',
  'claude-fable-5=10/50/1/12.5',
  'claude-mythos-5-2=8/40/0.2/10',
  'claude-mythos-5-1=10/50/0.25/12.5',
  'claude-mythos-5=10/50/1/12.5',
  'gpt-5=1.25/10/0.125/1.25',
  'gpt-5-2025*=1.25/10/0.125/1.25',
  'gpt-5-codex*=1.25/10/0.125/1.25',
  'gpt-5.1*=1.25/10/0.125/1.25',
  'gpt-5-mini*=0.25/2/0.025/0.25',
  'gpt-5-nano*=0.05/0.4/0.005/0.05',
  'gpt-4.1*=2/8/0.5/2',
  'gpt-4.1-mini*=0.4/1.6/0.1/0.4',
  'gpt-4.1-nano*=0.1/0.4/0.025/0.1',
  'gpt-4o*=2.5/10/1.25/2.5',
  'gpt-4o-mini*=0.15/0.6/0.075/0.15',
  'o3*=2/8/0.5/2',
  'o4-mini*=1.1/4.4/0.275/1.1',
  'gemini-2.5-pro*=1.25/10/0.125/1.25',
  'gemini-2.5-flash*=0.3/2.5/0.03/0.3',
  'gemini-2.5-flash-lite*=0.1/0.4/0.01/0.1',
];

interface PriceEntry {
  readonly matches: (model: string) => boolean;
  readonly length: number;
  readonly price: Price;
}

type PriceOf = (model: string) => Price | undefined;

/** Given prices take precedence over the listed ones; within each, longer patterns do. */
export function pricesOf(given: readonly string[] = []): PriceOf {
  const [own, rest] = [given, listed].map((lines) => lines.map(entryOf).toSorted((a, b) => b.length - a.length));
  const entries = [...(own ?? []), ...(rest ?? [])];
  return (model) => entries.find(({ matches }) => matches(model))?.price;
}

export function costOf({ input, output, cacheRead, cacheWrite }: TokenCounts, price: Price): number {
  const sum = input * price.input + output * price.output + cacheRead * price.cacheRead + cacheWrite * price.cacheWrite;
  return sum / MILLION;
}

/** For input without reported counts: it may have been written to a cache, which costs more at some providers. */
export const worstCasePrice = (price: Price): Price => ({ ...price, input: Math.max(price.input, price.cacheWrite) });

function entryOf(line: string): PriceEntry {
  const at = line.lastIndexOf('=');
  const pattern = line.slice(0, Math.max(0, at));
  const numbers = line.slice(at + 1).split('/');
  const [input, output, cacheRead, cacheWrite] = numbers.map((text) =>
    /^\d{1,6}(\.\d{1,6})?$/.test(text) ? Number(text) : undefined,
  );
  const whole = pattern !== '' && numbers.length >= 2 && numbers.length <= 4;
  if (!whole || input === undefined || output === undefined) throw invalidPrice(line);
  if ((numbers.length > 2 && cacheRead === undefined) || (numbers.length > 3 && cacheWrite === undefined)) {
    throw invalidPrice(line);
  }
  const price = { input, output, cacheRead: cacheRead ?? input, cacheWrite: cacheWrite ?? input };
  return { matches: patternOf(pattern), length: pattern.length, price };
}

const invalidPrice = (line: string): CellaError =>
  new CellaError('INVALID_OPTIONS', `${JSON.stringify(line)} is not a price.`, {
    advice: 'Write it as MODEL=INPUT/OUTPUT/CACHE_READ/CACHE_WRITE in USD for a million tokens; see docs/gateway.md.',
  });

function patternOf(text: string): (name: string) => boolean {
  const parts = text.split('*').map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  const shape = new RegExp(`^${parts.join('.*')}$`);
  return (name) => shape.test(name);
}
