import { describe, expect, it } from 'vitest';
import { parseProfile } from './agent-profile.ts';

const hostile = [
  '',
  '..',
  '../x',
  'a/b',
  'a"b',
  "a'b",
  'a\nb',
  '$(touch x)',
  '`x`',
  '-rf',
  'a b',
  '__proto__x/',
  'x'.repeat(65),
];

describe('a profile', () => {
  it('keeps all fields', () => {
    const profile = {
      systemPrompt: 'Be "brief"; $(never) quote.\n',
      rules: { style: '# Style' },
      skills: { 'fit-curves': '---\nname: fit-curves\n---\n' },
      subagents: { reviewer: { description: 'Reviews.', prompt: 'Review it.', tools: ['Read'], model: 'small' } },
      commands: { ship: 'Ship $ARGUMENTS' },
      mcpServers: {
        docs: { type: 'http' as const, url: 'http://127.0.0.1:1/mcp', headers: { 'x-a': 'b' } },
        local: { type: 'stdio' as const, argv: ['node', 'x.mjs', '$(x)'], env: { A: 'b' } },
      },
      files: { 'a/$(x) "b"\n.txt': 'text', empty: '', binary: { base64: '/wA=' } },
    };
    expect(parseProfile(profile)).toEqual(profile);
    expect(parseProfile({})).toEqual({});
  });

  it.each(['rules', 'skills', 'subagents', 'commands', 'mcpServers'])('refuses hostile names of %s', (part) => {
    const value =
      part === 'subagents'
        ? { description: '', prompt: '' }
        : part === 'mcpServers'
          ? { type: 'stdio', argv: ['x'] }
          : '';
    for (const name of hostile) {
      expect(() => parseProfile({ [part]: { [name]: value } }), name).toThrow(
        expect.objectContaining({ code: 'INVALID_NAME' }),
      );
    }
  });

  it.each(['', '/etc/passwd', '../x', 'a/../b', 'a/./b', 'a//b', 'a/', 'a\0b', 'x'.repeat(300)])(
    'refuses a file at %j',
    (path) => {
      expect(() => parseProfile({ files: { [path]: '' } })).toThrow(expect.objectContaining({ code: 'INVALID_NAME' }));
    },
  );

  it.each([
    { systemPrompt: 'a\0b' },
    { systemPrompt: 'x'.repeat(2_000_000) },
    { more: 1 },
    { mcpServers: { a: { type: 'http', url: 'file:///etc/passwd' } } },
    { mcpServers: { a: { type: 'http', url: 'http://x/', headers: { 'x-a': 'b\r\nc: d' } } } },
    { mcpServers: { a: { type: 'stdio', argv: [] } } },
    { rules: Object.fromEntries(Array.from({ length: 1001 }, (_, index) => [`r${index}`, ''])) },
    { files: { a: { base64: 'not base64!' } } },
  ])('refuses what does not fit (%#)', (profile) => {
    expect(() => parseProfile(profile)).toThrow(expect.objectContaining({ code: 'INVALID_REQUEST' }));
  });
});
