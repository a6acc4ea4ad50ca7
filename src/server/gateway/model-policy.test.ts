import { describe, expect, it } from 'vitest';
import { CellaError } from '../../protocol/errors.ts';
import { costOf, modelPolicy, pricesOf } from './model-policy.ts';

describe('gatewayRules', () => {
  it('has the providers’ own addresses, and all models, by default', () => {
    const { addresses, allows, keys } = modelPolicy();
    expect(addresses.anthropic.href).toBe('https://api.anthropic.com/');
    expect(allows('openai', 'anything')).toBe(true);
    expect(keys).toBe('gateway');
  });

  it.each([
    ['http elsewhere', { providers: ['anthropic=http://10.0.0.1:80'] }],
    ['a password', { providers: ['anthropic=https://me:secret@host'] }],
    ['a query', { providers: ['anthropic=https://host/?key=secret'] }],
    ['another scheme', { providers: ['anthropic=file:///etc/secret'] }],
    ['no address', { providers: ['anthropic='] }],
    ['an unknown provider', { providers: ['acme=https://host'] }],
    ['a model of none', { models: ['claude-*'] }],
    ['half a price', { prices: ['claude=1'] }],
    ['a price in words', { prices: ['claude=one/two'] }],
  ])('refuses %s, without showing a possible secret', (_name, settings) => {
    try {
      modelPolicy(settings);
      expect.unreachable();
    } catch (error) {
      expect(error).toBeInstanceOf(CellaError);
      expect(error).toMatchObject({ code: 'INVALID_OPTIONS' });
      expect(JSON.stringify(error)).not.toContain('secret');
    }
  });

  it('treats patterns as names, and not as regular expressions', () => {
    const { allows } = modelPolicy({ models: ['openai=gpt-4.1*', 'openai=o3'] });
    expect(['gpt-4.1', 'gpt-4.1-mini', 'o3'].every((model) => allows('openai', model))).toBe(true);
    expect(['gpt-401', 'xgpt-4.1', 'o3-pro', 'O3'].some((model) => allows('openai', model))).toBe(false);
    expect(allows('anthropic', 'claude')).toBe(true);
  });
});

describe('fields that the operator adds', () => {
  it('apply to one provider', () => {
    const { addedFields } = modelPolicy({ fields: ['anthropic=novelty', 'openai=other.field'] });
    expect([...addedFields('anthropic')]).toEqual(['novelty']);
    expect([...addedFields('gemini')]).toEqual([]);
  });

  it.each([
    ...['safeguards', 'safeguard_results', 'mcp_approval_response', 'verdict', 'permission_mode', 'Auto-Mode-x'],
    ...['dangerous-tool-use-2026-09-03', 'afk-mode-2026-01-31', 'a b', 'x'.repeat(101)],
  ])('are never what decides in the place of a person, nor no name: %s', (name) => {
    expect(() => modelPolicy({ fields: [`anthropic=${name}`] })).toThrow('--provider-field');
  });
});

describe('prices', () => {
  it('use the longest pattern, and the operator’s own first', () => {
    expect(pricesOf()('gpt-4.1-mini-2025')?.input).toBe(0.4);
    expect(pricesOf(['gpt-*=7/8'])('gpt-4.1-mini')).toEqual({ input: 7, output: 8, cacheRead: 7, cacheWrite: 7 });
    expect(pricesOf()('nobody-knows')).toBeUndefined();
  });

  it('exist for the models that Claude’s program requests by itself, and for no future one', () => {
    const priceOf = pricesOf();
    const known = ['claude-opus-5-5', 'claude-sonnet-5-5', 'claude-haiku-5-5', 'claude-fable-5-2', 'claude-sonnet-4-6'];
    expect(known.map((model) => priceOf(model)?.output)).toEqual([20, 10, 0.5, 40, 15]);
    expect(priceOf('claude-opus-5')?.output).toBe(25);
    expect(priceOf('claude-opus-5-9')).toBeUndefined();
  });

  it('are separate for cache reads and cache writes', () => {
    const price = { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 };
    const counts = { input: 1_000_000, output: 1_000_000, cacheRead: 1_000_000, cacheWrite: 1_000_000 };
    expect(costOf(counts, price)).toBeCloseTo(22.05);
  });
});
