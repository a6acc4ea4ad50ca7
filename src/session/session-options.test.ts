import { describe, expect, it } from 'vitest';
import { CellaError } from '../protocol/errors.ts';
import { CheckedOptionsCache, checkExecuteOptions, checkOptions } from './session-options.ts';

function refusal(check: () => unknown): CellaError {
  try {
    check();
  } catch (error) {
    if (error instanceof CellaError) return error;
    throw error;
  }
  throw new Error('the options were taken');
}

describe('the options of a session', () => {
  it('all have a default', () => {
    expect(checkOptions({})).toMatchObject({
      agentKey: 'default',
      env: {},
      sandbox: 'on',
      limits: { memoryMb: 2048, processes: 256 },
      timeoutMs: 0,
      queueLimit: 64,
      outputLimitBytes: 1_048_576,
      preload: [],
      spares: 0,
    });
  });

  it('accept an empty agent key as `default`, and refuse one of only spaces', () => {
    expect(checkOptions({ agentKey: '' }).agentKey).toBe('default');
    for (const agentKey of [' ', '  ', '\t\n']) {
      expect(() => checkOptions({ agentKey })).toThrow(expect.objectContaining({ code: 'INVALID_OPTIONS' }));
    }
  });

  it('are refused for an invalid key even if all others were accepted before', () => {
    const others = { preload: ['os'], env: { A: '1' }, spares: 1 };
    const first = checkOptions({ agentKey: 'a', ...others });
    expect(checkOptions({ agentKey: 'b', ...others })).toEqual({ ...first, agentKey: 'b' });
    expect(checkOptions({ agentKey: '', ...others }).agentKey).toBe('default');
    expect(refusal(() => checkOptions({ agentKey: ' ', ...others })).message).toContain('agentKey');
    expect(refusal(() => checkOptions({ agentKey: 'a\0b', ...others })).message).toContain('agentKey');
    expect(refusal(() => checkOptions({ agentKey: null, ...others })).message).toContain('agentKey');
    expect(refusal(() => checkOptions({ agentKey: 'a', ...others, spares: '1' })).message).toContain('spares');
  });

  it.each(['handle:risk gate', '../..', '😀', ' a '])('accept the agent key %j unchanged', (agentKey) => {
    expect(checkOptions({ agentKey }).agentKey).toBe(agentKey);
  });

  it.each<[string, unknown, string]>([
    ['a number for a key', { agentKey: 1 }, 'agentKey'],
    ['a null byte in the key', { agentKey: 'a\0b' }, 'agentKey'],
    ['a key that is too long', { agentKey: 'x'.repeat(1025) }, 'agentKey'],
    ['an empty cwd', { cwd: '' }, 'cwd'],
    ['a null byte in cwd', { cwd: '/tmp\0' }, 'cwd'],
    ['env that is a list', { env: ['A=1'] }, 'env'],
    ['a variable that is a number', { env: { A: 1 } }, 'env.A'],
    ['a variable name with =', { env: { 'A=B': '1' } }, 'env.A=B'],
    ['an empty variable name', { env: { '': '1' } }, 'env'],
    ['a null byte in a variable', { env: { A: 'a\0b' } }, 'env.A'],
    ['an empty python', { python: '' }, 'python'],
    ['an unknown sandbox', { sandbox: 'maybe' }, 'sandbox'],
    ['sandbox false', { sandbox: false }, 'sandbox'],
    ['an unknown part of the policy', { sandbox: { net: 'none' } }, 'sandbox'],
    ['a relative folder in the policy', { sandbox: { readable: ['etc'] } }, 'sandbox'],
    ['too little memory', { limits: { memoryMb: 1 } }, 'limits.memoryMb'],
    ['no processes', { limits: { processes: 0 } }, 'limits.processes'],
    ['half a CPU second', { limits: { cpuSeconds: 0.5 } }, 'limits.cpuSeconds'],
    ['processors for a sandboxed process', { limits: { cpus: 1 } }, 'limits.cpus'],
    ['no processor', { executor: 'container', limits: { cpus: 0 } }, 'limits.cpus'],
    ['an unknown limit', { limits: { memory: 1 } }, 'limits'],
    ['an empty data folder', { dataDir: '' }, 'dataDir'],
    ['a negative timeout', { timeoutMs: -1 }, 'timeoutMs'],
    ['a timeout that is text', { timeoutMs: '5' }, 'timeoutMs'],
    ['a timeout that no timer holds', { timeoutMs: 2 ** 31 }, 'timeoutMs'],
    ['a timeout of NaN', { timeoutMs: Number.NaN }, 'timeoutMs'],
    ['an endless grace', { graceMs: Number.POSITIVE_INFINITY }, 'graceMs'],
    ['a negative wait for input', { inputTimeoutMs: -1 }, 'inputTimeoutMs'],
    ['a negative queue', { queueLimit: -1 }, 'queueLimit'],
    ['half a byte of output', { outputLimitBytes: 0.5 }, 'outputLimitBytes'],
    ['code for a module', { preload: ['os; import sys'] }, 'preload.0'],
    ['a path for a module', { preload: ['a/b'] }, 'preload.0'],
    ['too many spares', { spares: 65 }, 'spares'],
    ['an option that does not exist', { agentkey: 'x' }, 'agentkey'],
    ['limits without a sandbox', { sandbox: 'off', limits: { memoryMb: 64 } }, 'limits'],
    ['a lone surrogate in a variable', { env: { NAME: '\ud800' } }, 'env.NAME'],
    ['text instead of options', 'risk', 'options'],
    ['null instead of options', null, 'options'],
  ])('refuse %s, and name it', (_name, options, named) => {
    const error = refusal(() => checkOptions(options));
    expect(error.code).toBe('INVALID_OPTIONS');
    expect(error.message).toContain(named);
    expect(error.details.problems).toHaveLength(1);
  });

  it('report every invalid option, not only the first', () => {
    const { message } = refusal(() => checkOptions({ timeoutMs: -1, spares: -1, limits: { openFiles: 1 } }));
    for (const name of ['timeoutMs', 'spares', 'limits.openFiles']) expect(message).toContain(name);
  });
});

describe('the options of an execution', () => {
  it('can be left out', () => {
    expect(checkExecuteOptions({})).toEqual({});
  });

  it.each<[string, unknown]>([
    ['timeoutMs', { timeoutMs: -1 }],
    ['timeoutMs', { timeoutMs: 1.5 }],
    ['inputTimeoutMs', { inputTimeoutMs: '1' }],
    ['signal', { signal: {} }],
  ])('refuse a bad %s', (name, options) => {
    const error = refusal(() => checkExecuteOptions(options));
    expect(error.code).toBe('INVALID_OPTIONS');
    expect(error.message).toContain(name);
  });
});

const written = () => ({ agentKey: 'a', preload: ['numpy'], limits: { memoryMb: 64 }, spares: 2 });

function having(options: object): CheckedOptionsCache<{ limits: { memoryMb: number } }> {
  const seen = new CheckedOptionsCache<{ limits: { memoryMb: number } }>('agentKey');
  seen.add(options, { limits: { memoryMb: 64 } });
  return seen;
}

describe('options that were found valid', () => {
  it('are recognized, with any key, and in any order', () => {
    const seen = having(written());
    const known = seen.find(written());
    expect(known).toEqual({ limits: { memoryMb: 64 } });
    expect(seen.find({ ...written(), agentKey: 7 })).toBe(known);
    const { agentKey: _, ...without } = written();
    expect(seen.find(without)).toBe(known);
    expect(seen.find({ spares: 2, limits: { memoryMb: 64 }, preload: ['numpy'] })).toBe(known);
  });

  it.each<[string, unknown]>([
    ['one more', { ...written(), cwd: '/tmp' }],
    ['one more that is undefined', { ...written(), cwd: undefined }],
    ['one less', { agentKey: 'a', preload: ['numpy'], limits: { memoryMb: 64 } }],
    ['another name', { agentKey: 'a', preload: ['numpy'], limits: { memoryMb: 64 }, spare: 2 }],
    ['another value', { ...written(), spares: 3 }],
    ['another nested value', { ...written(), limits: { memoryMb: 65 } }],
    ['one more nested', { ...written(), limits: { memoryMb: 64, cpus: 1 } }],
    ['a longer list', { ...written(), preload: ['numpy', 'os'] }],
    ['an object like a list', { ...written(), preload: { 0: 'numpy', length: 1 } }],
    ['text for a number', { ...written(), spares: '2' }],
    ['a hidden name', Object.defineProperty(written(), 'cwd', { value: '' })],
    ['a symbol', { ...written(), [Symbol('cwd')]: '' }],
    ['an inherited one', Object.assign(Object.create({ cwd: '' }), written())],
    ['a list', [written()]],
    ['nothing', undefined],
    ['null', null],
  ])('are not recognized with %s', (_what, options) => {
    expect(having(written()).find(options)).toBeUndefined();
  });

  it('do not change when the caller changes its object', () => {
    const options = written();
    const seen = having(options);
    options.preload.push('os');
    expect(seen.find(options)).toBeUndefined();
    expect(seen.find(written())).toBeDefined();
  });

  it('cannot be changed by one session for the next', () => {
    const known = having(written()).find(written());
    expect(() => {
      if (known) known.limits.memoryMb = 1;
    }).toThrow(TypeError);
  });

  it.each<[string, object]>([
    ['a function', { approve: () => {} }],
    ['a function within', { storage: { toBootstrapConfig: () => {} } }],
    ['an object of a class', { storage: new Map() }],
    ['an object that contains itself', cyclic()],
  ])('are not cached if one is %s', (_what, options) => {
    expect(having(options).find(options)).toBeUndefined();
  });

  it('have a limited number in the cache', () => {
    const seen = new CheckedOptionsCache<object>('agentKey');
    for (let spares = 0; spares < 100; spares++) seen.add({ spares }, {});
    expect(seen.find({ spares: 0 })).toBeUndefined();
    expect(seen.find({ spares: 99 })).toBeDefined();
  });
});

function cyclic(): object {
  const options: Record<string, unknown> = {};
  options.env = options;
  return options;
}
