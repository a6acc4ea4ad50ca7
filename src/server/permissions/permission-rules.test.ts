import { describe, expect, it } from 'vitest';
import { workedMs } from '../../lib/event-loop.ts';
import { agentRuleTarget, checkPattern, exactPattern, matches } from './permission-rules.ts';

const command = (text: string) => ({ kind: 'command', text }) as const;
const path = (text: string) => ({ kind: 'path', text }) as const;

describe('a rule about a command', () => {
  it('allows exactly its text, all of it, and nothing longer', () => {
    expect(matches('git status', command('git status'))).toBe(true);
    for (const other of ['git status ', ' git status', 'git statusx', 'Git status', 'git  status', 'sudo git status']) {
      expect(matches('git status', command(other)), other).toBe(false);
    }
  });

  it.each([
    'git log; rm -rf /',
    'git log && rm -rf /',
    'git log || id',
    'git log | sh',
    'git log & id',
    'git log\nrm -rf /',
    'git log\r\nid',
    'git log\u2028id',
    'git log $(id)',
    'git log `id`',
    'git log $PATH',
    'git log > /etc/passwd',
    'git log < /etc/passwd',
    'git log <(id)',
    'git log "a"',
    "git log 'a'",
    'git log \\\nid',
    'git log {a,b}',
    'git log ~root',
    'git log #x',
    'git log \u202egnp',
    'git log \u00a0id',
    'git log \uff1b id',
    'git log \0',
    'git log !!',
  ])('has wildcards that never stand for more than words: %j', (text) => {
    expect(matches('git log *', command(text))).toBe(false);
    expect(matches('git log*', command(text))).toBe(false);
  });

  it('matches words with a wildcard', () => {
    expect(matches('git log *', command('git log --oneline -n 3 src/a.ts'))).toBe(true);
    expect(matches('git log -n ?', command('git log -n 3'))).toBe(true);
    expect(matches('git log -n ?', command('git log -n 30'))).toBe(false);
    expect(matches('npm run *:*', command('npm run test:unit'))).toBe(true);
  });

  it('must name its program', () => {
    for (const pattern of ['* status', '*', '?it status', '***']) {
      expect(matches(pattern, command('git status')), pattern).toBe(false);
    }
  });

  it('can contain shell characters, which then match themselves', () => {
    expect(matches('git log | head -n *', command('git log | head -n 3'))).toBe(true);
    expect(matches('git log | head -n *', command('git log | head -n 3; id'))).toBe(false);
  });

  it('allows every use of a tool with `**`', () => {
    expect(matches('**', command('anything; at all\n'))).toBe(true);
  });

  it.each(['echo *', 'echo ?', 'echo \\', 'echo \\*', 'a\\b', 'echo "x" && $(y)', 'C:\\**'])(
    'can be made of %j, and allows nothing else',
    (text) => {
      expect(matches(exactPattern(text), command(text))).toBe(true);
      expect(matches(exactPattern(text), command(`${text}x`))).toBe(false);
      expect(matches(exactPattern(text), command(text.replace('*', 'x').replace('?', 'x')))).toBe(!/[*?]/.test(text));
    },
  );

  it('is matched quickly, whatever its form', () => {
    const pattern = `a${`*${'a'.repeat(15)}`.repeat(60)}b`;
    const times = Array.from({ length: 5 }, () => {
      const began = workedMs();
      expect(matches(pattern, command('a'.repeat(4000)))).toBe(false);
      return workedMs() - began;
    });
    // A user may have 200 such rules, and a session as many. The shortest: other programs slow this one down.
    expect(Math.min(...times)).toBeLessThan(40);
    expect(() => checkPattern('a*'.repeat(100))).toThrow(/wildcards/);
  });

  it.each(['', ' ', 'a\nb', 'a\u202eb', 'a\u200bb', 'a\ud800', 'x'.repeat(4001)])('cannot be %j', (pattern) => {
    expect(() => checkPattern(pattern)).toThrow(expect.objectContaining({ code: 'INVALID_REQUEST' }));
    expect(matches(pattern, command(pattern))).toBe(false);
  });
});

describe('a rule about a path', () => {
  it('matches in its folder, and deeper only with `**`', () => {
    expect(matches('/agent/workspace/src/*', path('/agent/workspace/src/a b.ts'))).toBe(true);
    expect(matches('/agent/workspace/src/*', path('/agent/workspace/src/deep/a.ts'))).toBe(false);
    expect(matches('/agent/workspace/**', path('/agent/workspace/src/deep/a.ts'))).toBe(true);
    expect(matches('*.md', path('README.md'))).toBe(true);
  });

  it.each([
    '/agent/workspace/../etc/passwd',
    '/agent/workspace/src/../../../etc/passwd',
    '/agent/workspace/./a',
    '/agent/workspace//etc/passwd',
    '/agent/workspace/..',
    '/agent/workspace/a\n',
    '/agent/workspace-evil/a',
  ])('does not match %j', (text) => {
    expect(matches('/agent/workspace/**', path(text))).toBe(false);
  });

  it('names hidden files, and does not match them with a wildcard', () => {
    expect(matches('/w/**', path('/w/.git/hooks/pre-commit'))).toBe(false);
    expect(matches('*', path('.bashrc'))).toBe(false);
    expect(matches('/w/***/b', path('/w/a/b'))).toBe(true);
    expect(matches('/w/***/b', path('/w/.a/b'))).toBe(false);
    expect(matches('/w/.github/*', path('/w/.github/ci.yml'))).toBe(true);
  });
});

describe('the text that a rule matches', () => {
  const of = (tool: string, input: unknown, summary = 's') => agentRuleTarget({ tool, summary, input });

  it('is what decides, and never a shortened summary', () => {
    expect(of('Bash', { command: 'git status', description: 'x' })).toEqual(command('git status'));
    expect(of('Edit', { file_path: '/w/a', new_string: 'x' })).toEqual(path('/w/a'));
    expect(of('mcp__deploy__run', { command: 'status', host: 'prod' })?.text).toBe(
      '{"command":"status","host":"prod"}',
    );
  });

  it('is undefined if the tool could be mistaken for another', () => {
    expect(of('tools.deploy', {})).toBeUndefined();
    expect(of('Ba\u200bsh', { command: 'ls' })).toBeUndefined();
    expect(of('Bash', { command: ['ls'] })).toBeUndefined();
  });
});
