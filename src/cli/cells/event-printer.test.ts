import { describe, expect, it } from 'vitest';
import { describeDenied, formatBundle } from './event-printer.ts';

describe('formatBundle', () => {
  it('prefers the text', () => {
    expect(formatBundle({ 'text/plain': 'a frame', 'text/html': '<table>' })).toBe('a frame');
  });

  it('names the type and size of a picture', () => {
    const png = Buffer.alloc(12_000).toString('base64');
    expect(formatBundle({ 'image/png': png })).toBe('[image/png, 12 kB]');
    expect(formatBundle({ 'text/plain': '<Figure>', 'image/png': png })).toBe('<Figure>\n[image/png, 12 kB]');
    expect(formatBundle({ 'image/svg+xml': '<svg/>' })).toBe('[image/svg+xml, 6 bytes]');
  });

  it('names the type of data without text', () => {
    expect(formatBundle({ 'text/html': '<b>x</b>' })).toBe('[text/html, 8 bytes]');
  });
});

describe('deniedToText', () => {
  it('says what was denied, and how often, and shows no control characters', () => {
    const denied = { type: 'network_denied', host: 'a.example', port: 443, reason: 'not_listed' } as const;
    expect(describeDenied(denied)).toBe('cella: the network policy blocked the code from a.example:443 (not_listed).');
    expect(describeDenied({ ...denied, more: 3 })).toContain('and 3 more since the last notice');
    expect(describeDenied({ ...denied, host: 'a\u001b[2J' })).not.toContain('\u001b');
  });
});
