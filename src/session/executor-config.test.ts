import { describe, expect, it } from 'vitest';
import { CellaError } from '../protocol/errors.ts';
import { requireLinux, withExecutorAdvice } from './executor-config.ts';

const failing = (error: unknown) => () => Promise.reject(error);
const lacking = new CellaError('SANDBOX_UNAVAILABLE', 'landlock is missing.', { details: { layer: 'landlock' } });

describe('withExecutorAdvice', () => {
  it('adds both alternatives to what is missing, if nobody chose the executor', async () => {
    await expect(withExecutorAdvice('auto', failing(lacking))).rejects.toMatchObject({
      code: 'SANDBOX_UNAVAILABLE',
      message: expect.stringMatching(/^landlock is missing\. .*executor: "container".*executor: "in-process".*trusted/),
      details: { layer: 'landlock', waysOut: ['container', 'in-process'] },
      cause: lacking,
    });
  });

  it('does not change the error of a chosen executor', async () => {
    await expect(withExecutorAdvice('subprocess', failing(lacking))).rejects.toBe(lacking);
  });

  it('does not change errors that another executor would have too', async () => {
    const busy = new CellaError('KEY_BUSY', 'Another process holds it.');
    await expect(withExecutorAdvice('auto', failing(busy))).rejects.toBe(busy);
    await expect(withExecutorAdvice('auto', failing('text'))).rejects.toBe('text');
  });
});

describe('requireLinux', () => {
  it('names the platform if it is not Linux', () => {
    expect(() => requireLinux('darwin')).toThrow('need Linux; this is darwin');
    expect(() => requireLinux('linux')).not.toThrow();
  });
});
