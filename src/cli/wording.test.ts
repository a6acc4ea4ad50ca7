import { describe, expect, it } from 'vitest';
import { type ErrorCode, errorCodes } from '../protocol/errors.ts';
import { adviceOn, adviceTold } from './wording.ts';

/** What can be sent and read by a program, and not typed at a prompt. */
const FOR_PROGRAMS =
  /\b(GET|PUT|POST|PATCH|DELETE) \/|\/v1\/|\/docs\b|\broute\b|Idempotency-Key|`details|onBusy|limits\.|`\/stop`/;
const codes = Object.keys(errorCodes) as ErrorCode[];

describe('advice at a prompt', () => {
  it.each(codes)('on %s names nothing that only a program can send or read', (code) => {
    expect(adviceOn(code)).not.toMatch(FOR_PROGRAMS);
    expect(adviceTold({ code, advice: errorCodes[code].advice })).toBe(adviceOn(code));
  });

  it('leaves out the route that a server names beside the command, and nothing else', () => {
    const told = 'See them with `cella users list`, or GET /v1/users/:id; `cella users add` makes one.';
    const here = 'See them with `cella users list`; `cella users add` makes one.';
    expect(adviceOn('NOT_FOUND', told)).toBe(here);
    expect(adviceTold({ code: 'NOT_FOUND', advice: told })).toBe(here);
    expect(adviceTold({ code: 'OF_A_LATER_VERSION', advice: 'Do as it says.' })).toBe('Do as it says.');
  });
});
