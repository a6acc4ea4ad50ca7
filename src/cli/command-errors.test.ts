import { describe, expect, it } from 'vitest';
import type { Status } from '../protocol/enums.ts';
import { type ErrorCode, errorCodes } from '../protocol/error-codes.ts';
import { CellaError } from '../protocol/errors.ts';
import type { ResultEvent } from '../protocol/execution-events.ts';
import { adviceFor, adviceFromServer, UsageError } from './command-errors.ts';
import { exitCodeOf, exitCodeOfFailure } from './exit-codes.ts';

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

  it('distinguishes a wrong command line, a failure, and a reader that disconnected', () => {
    expect(exitCodeOfFailure(new UsageError('no', 'do'))).toBe(2);
    expect(exitCodeOfFailure(new CellaError('INVALID_OPTIONS', 'no'))).toBe(2);
    expect(exitCodeOfFailure(new CellaError('PYTHON_NOT_FOUND', 'no'))).toBe(1);
    expect(exitCodeOfFailure(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }))).toBe(141);
  });
});

/** What can be sent and read by a program, and not typed at a prompt. */
const FOR_PROGRAMS =
  /\b(GET|PUT|POST|PATCH|DELETE) \/|\/v1\/|\/docs\b|\broute\b|Idempotency-Key|`details|onBusy|limits\.|`\/stop`/;
const codes = Object.keys(errorCodes) as ErrorCode[];

describe('advice at a prompt', () => {
  it.each(codes)('on %s names nothing that only programs can use', (code) => {
    expect(adviceFor(code)).not.toMatch(FOR_PROGRAMS);
    expect(adviceFromServer({ code, advice: errorCodes[code].advice })).toBe(adviceFor(code));
  });

  it('omits only the route that a server names next to the command', () => {
    const told = 'See them with `cella users list`, or GET /v1/users/:id; `cella users create` makes one.';
    const here = 'See them with `cella users list`; `cella users create` makes one.';
    expect(adviceFor('NOT_FOUND', told)).toBe(here);
    expect(adviceFromServer({ code: 'NOT_FOUND', advice: told })).toBe(here);
    expect(adviceFromServer({ code: 'OF_A_LATER_VERSION', advice: 'Do as it says.' })).toBe('Do as it says.');
  });
});
