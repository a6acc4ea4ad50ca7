import { describe, expect, it } from 'vitest';
import { SeenOptions } from './seen-options.ts';

const written = () => ({ agentKey: 'a', preload: ['numpy'], limits: { memoryMb: 64 }, spares: 2 });

function having(options: object): SeenOptions<{ limits: { memoryMb: number } }> {
  const seen = new SeenOptions<{ limits: { memoryMb: number } }>('agentKey');
  seen.add(options, { limits: { memoryMb: 64 } });
  return seen;
}

describe('options that were found to be good', () => {
  it('are known again, whatever the key, and in whatever order they are written', () => {
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
    ['one more that says nothing', { ...written(), cwd: undefined }],
    ['one less', { agentKey: 'a', preload: ['numpy'], limits: { memoryMb: 64 } }],
    ['another in its place', { agentKey: 'a', preload: ['numpy'], limits: { memoryMb: 64 }, spare: 2 }],
    ['one that is otherwise', { ...written(), spares: 3 }],
    ['one that is otherwise within', { ...written(), limits: { memoryMb: 65 } }],
    ['one more within', { ...written(), limits: { memoryMb: 64, cpus: 1 } }],
    ['a longer list', { ...written(), preload: ['numpy', 'os'] }],
    ['what is like a list', { ...written(), preload: { 0: 'numpy', length: 1 } }],
    ['text for a number', { ...written(), spares: '2' }],
    ['a name that is hidden', Object.defineProperty(written(), 'cwd', { value: '' })],
    ['a symbol', { ...written(), [Symbol('cwd')]: '' }],
    ['what is inherited', Object.assign(Object.create({ cwd: '' }), written())],
    ['a list', [written()]],
    ['nothing', undefined],
    ['null', null],
  ])('are not known by %s', (_what, options) => {
    expect(having(written()).find(options)).toBeUndefined();
  });

  it('stay as they were when the caller changes what it wrote', () => {
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
    ['what has no end', cyclic()],
  ])('are not kept where one is %s', (_what, options) => {
    expect(having(options).find(options)).toBeUndefined();
  });

  it('are as many as a program has ways to open a session', () => {
    const seen = new SeenOptions<object>('agentKey');
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
