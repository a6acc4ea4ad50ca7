import { describe, expect, it } from 'vitest';
import { CellaError } from '../protocol/errors.ts';
import { requireLinux, withExecutorAdvice } from './executor-config.ts';

const failing = (error: unknown) => () => Promise.reject(error);
const lacking = new CellaError('SANDBOX_UNAVAILABLE', 'landlock is missing.', { details: { layer: 'landlock' } });

describe('tellingWaysOut', () => {
  it('adds both ways out to what is missing, where nobody chose the executor', async () => {
    await expect(withExecutorAdvice('auto', failing(lacking))).rejects.toMatchObject({
      code: 'SANDBOX_UNAVAILABLE',
      message: expect.stringMatching(/^landlock is missing\. .*executor: "container".*executor: "in-process".*trusted/),
      details: { layer: 'landlock', waysOut: ['container', 'in-process'] },
      cause: lacking,
    });
  });

  it('leaves the error of an executor that was chosen as it is', async () => {
    await expect(withExecutorAdvice('subprocess', failing(lacking))).rejects.toBe(lacking);
  });

  it('leaves errors alone that another executor would meet too', async () => {
    const busy = new CellaError('KEY_BUSY', 'Another process holds it.');
    await expect(withExecutorAdvice('auto', failing(busy))).rejects.toBe(busy);
    await expect(withExecutorAdvice('auto', failing('text'))).rejects.toBe('text');
  });
});

describe('requireLinux', () => {
  it('names the platform that it is not', () => {
    expect(() => requireLinux('darwin')).toThrow('need Linux, and this is darwin');
    expect(() => requireLinux('linux')).not.toThrow();
  });
});
