import { readdirSync, readFileSync } from 'node:fs';
import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { type ErrorCode, errorCodes } from './error-codes.ts';
import { CellaError } from './errors.ts';

const page = readFileSync(new URL('../../docs/errors.md', import.meta.url), 'utf8');
const rows = page
  .slice(page.indexOf('## Codes'))
  .split('\n')
  .filter((line) => line.startsWith('| `'))
  .map((line) => line.split('|').map((cell) => cell.trim()))
  .map(([, code = '', meaning = '', http, rpc, retry, advice]) => ({
    code: code.replaceAll('`', ''),
    meaning,
    facts: { http: Number(http), rpc: Number(rpc), retry: retry === 'yes', advice },
  }));

describe('docs/errors.md', () => {
  test('has one row for every code, in the order of the table in the source', () => {
    expect(rows.map((row) => row.code)).toEqual(Object.keys(errorCodes));
  });

  test.each(rows)('describes $code as the source does, and its meaning', ({ code, meaning, facts }) => {
    expect(facts).toEqual(errorCodes[code as ErrorCode]);
    expect(meaning).not.toBe('');
  });
});

/** All of our own TypeScript but the table and the tests. */
function sources(): string {
  return ['../', '../../bench/']
    .map((folder) => new URL(folder, import.meta.url))
    .flatMap((root) =>
      readdirSync(root, { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts') && name !== 'protocol/errors.ts')
        .map((name) => readFileSync(new URL(name, root), 'utf8')),
    )
    .join('\n');
}

describe('error codes', () => {
  test('are each used somewhere', () => {
    const text = sources();
    const made = (code: string) => new RegExp(`CellaError\\(\\s*'${code}'|code: '${code}'`).test(text);
    expect(Object.keys(errorCodes).filter((code) => !made(code))).toEqual([]);
  });

  test('have unique RPC codes', () => {
    const codes = Object.values(errorCodes).map((facts) => facts.rpc);
    expect(new Set(codes).size).toBe(codes.length);
  });
});

describe('CellaError', () => {
  test('carries code, advice, retry, details and cause', () => {
    const cause = new Error('socket closed');
    const error = new CellaError('KERNEL_DIED', 'kernel default was killed by SIGKILL', {
      cause,
      details: { signal: 'SIGKILL' },
    });
    expect(error).toMatchObject({ name: 'CellaError', code: 'KERNEL_DIED', retryable: true, cause });
    expect(error.advice).toBe(errorCodes.KERNEL_DIED.advice);
    expect(error.details).toEqual({ signal: 'SIGKILL' });
  });

  test('is sent without its stack or its cause', () => {
    const error = new CellaError('KERNEL_BUSY', 'busy', { cause: new Error('inner') });
    expect(JSON.parse(JSON.stringify(error))).toEqual({
      code: 'KERNEL_BUSY',
      message: 'busy',
      advice: errorCodes.KERNEL_BUSY.advice,
      details: {},
    });
  });
});

test('an uncaught error shows the advice', () => {
  expect(inspect(new CellaError('AGENT_NOT_INSTALLED', 'It is not there.'))).toContain(
    errorCodes.AGENT_NOT_INSTALLED.advice,
  );
  expect(inspect(new CellaError('AGENT_NOT_INSTALLED', 'It is not there.', { advice: 'Bring it.' }))).toContain(
    'Bring it.',
  );
});
