import { describe, expect, it } from 'vitest';
import { formatAllowedHost, parseAllowedHost, parseHost, parseTarget } from './network-hosts.ts';
import { SandboxPolicy } from './sandbox-policy.ts';

describe('an entry of an allow-list', () => {
  it.each([
    ['example.org', 'example.org'],
    ['EXAMPLE.org.', 'example.org'],
    ['*.PyPI.org', '*.pypi.org'],
    ['example.org:8443', 'example.org:8443'],
    ['*.example.org:8443', '*.example.org:8443'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['10.0.0.5:5432', '10.0.0.5:5432'],
    ['::1', '::1'],
    ['[2606:4700:0:0::1]:80', '[2606:4700::1]:80'],
    ['[::ffff:127.0.0.1]', '127.0.0.1'],
    ['localhost', 'localhost'],
    ['_dmarc.example.org', '_dmarc.example.org'],
  ])('%s is normalized to %s', (text, written) => {
    const { network } = SandboxPolicy.parse({ network: { allow: [text] } });
    expect(network).toEqual({ allow: [written] });
    const again = parseAllowedHost(written);
    expect(again && formatAllowedHost(again)).toBe(written);
  });

  it.each([
    '',
    '*',
    '*.',
    '*.org',
    '*.*.org',
    'a.*.org',
    '*example.org',
    '*.10.0.0.1',
    'http://example.org',
    'example.org/path',
    'user@example.org',
    'example.org:0',
    'example.org:080',
    'example.org:65536',
    'example.org:',
    'example.org:80:80',
    'example..org',
    '.example.org',
    'example.org..',
    '-a.example.org',
    'a b.org',
    'a%2eorg',
    'a\0.org',
    'a\n.org',
    '0x7f.1',
    '127.1',
    '2130706433',
    '0177.0.0.1',
    '１２７.0.0.1',
    '127。0。0。1',
    'fe80::1%eth0',
    '[fe80::1%25eth0]',
    '[::1',
    '::1]',
    'example.1',
    '$(id).org',
    'x'.repeat(64),
    `${'x.'.repeat(200)}org`,
  ])('%j is refused', (text) => {
    expect(SandboxPolicy.safeParse({ network: { allow: [text] } }).success).toBe(false);
  });

  it('must be in a list of limited length that is not empty', () => {
    expect(SandboxPolicy.safeParse({ network: { allow: [] } }).success).toBe(false);
    expect(SandboxPolicy.safeParse({ network: { allow: Array(257).fill('a.org') } }).success).toBe(false);
    expect(SandboxPolicy.safeParse({ network: { allow: ['a.org'], deny: [] } }).success).toBe(false);
    expect(SandboxPolicy.safeParse({ network: 'all' }).success).toBe(false);
  });
});

describe('a target', () => {
  it('has its own port, or the usual one', () => {
    expect(parseTarget('A.org:8080')).toEqual({ host: { kind: 'name', text: 'a.org' }, port: 8080 });
    expect(parseTarget('a.org', 80)?.port).toBe(80);
    expect(parseTarget('a.org')).toBeUndefined();
    expect(parseTarget('[::1]:443')?.host).toEqual({ kind: 'address', text: '::1' });
    expect(parseTarget('::1:443')).toBeUndefined();
  });

  it('that is an address in an unusual spelling is that address, or refused', () => {
    expect(parseHost('[::ffff:7f00:1]')).toEqual({ kind: 'address', text: '127.0.0.1' });
    expect(parseHost('127.0.0.1.')).toEqual({ kind: 'address', text: '127.0.0.1' });
    for (const text of ['127.1', '0x7f.1', '2130706433', '017700000001', '[::1%lo]'])
      expect(parseHost(text)).toBeUndefined();
  });
});
