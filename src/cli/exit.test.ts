import { describe, expect, it } from 'vitest';
import { CellaError } from '../protocol/errors.ts';
import type { ResultEvent, Status } from '../protocol/execution-events.ts';
import { exitCodeOf, exitCodeOfFailure, UsageError } from './exit.ts';

function result(status: Status, exitCode?: number): ResultEvent {
  const error = { name: 'SystemExit', message: '', traceback: '' };
  return {
    type: 'result',
    status,
    execution: 1,
    stdout: '',
    stderr: '',
    displays: [],
    durationMs: 1,
    ...(exitCode === undefined ? {} : { error: { ...error, exitCode } }),
  };
}

describe('exit codes', () => {
  it.each([
    ['ok', 0],
    ['error', 1],
    ['timeout', 124],
    ['interrupted', 130],
    ['died', 137],
  ] as const)('%s is %i', (status, code) => expect(exitCodeOf(result(status))).toBe(code));

  it.each([
    [0, 0],
    [7, 7],
    [256, 0],
    [-1, 255],
  ])('sys.exit(%i) is %i, as in Python', (asked, code) => expect(exitCodeOf(result('error', asked))).toBe(code));

  it('tells a wrong command line from a failure, and from a reader that went away', () => {
    expect(exitCodeOfFailure(new UsageError('no', 'do'))).toBe(2);
    expect(exitCodeOfFailure(new CellaError('INVALID_OPTIONS', 'no'))).toBe(2);
    expect(exitCodeOfFailure(new CellaError('PYTHON_NOT_FOUND', 'no'))).toBe(1);
    expect(exitCodeOfFailure(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }))).toBe(141);
  });
});
