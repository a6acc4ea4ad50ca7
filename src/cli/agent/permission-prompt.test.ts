import { describe, expect, it } from 'vitest';
import { describePattern } from './permission-prompt.ts';

const escaped = (text: string) => text.replaceAll(/[\\*?]/g, (sign) => `\\${sign}`);

describe('the pattern of a rule', () => {
  it.each([
    ['Bash', 'make *', 'make *'],
    ['Bash', '**', '** (every use)'],
    ['mcp__cella__run_code', escaped('{"code":"a = 1\\nprint(a * 2)"}'), 'the code "a = 1\\nprint(a * 2)"'],
    ['mcp__cella__run_code', escaped('{"code":"a","timeout":5}'), 'the code "a", timeout 5'],
    ['mcp__cella__run_code', '{"code":"a*"}', '{"code":"a*"}'],
    ['mcp__cella__run_code', '{"code":', '{"code":'],
    ['Bash', 'a\u001b[2J', 'a\\u{1b}[2J'],
  ])('of %s is told in words: %j', (tool, pattern, words) => {
    expect(describePattern({ tool, pattern })).toBe(words);
  });
});
