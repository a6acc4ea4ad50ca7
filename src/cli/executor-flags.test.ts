import { describe, expect, it } from 'vitest';
import { executorOptionsOf } from './executor-flags.ts';

const variables = { executor: 'container', image: 'env', engine: 'unix:///env.sock' };

describe('executorOptionsOf', () => {
  it('says nothing where nothing is said', () => expect(executorOptionsOf({}, {})).toEqual({}));

  it('lets flags win over variables', () => {
    expect(executorOptionsOf({}, variables)).toEqual({
      executor: 'container',
      image: 'env',
      engine: 'unix:///env.sock',
    });
    const flags = { executor: 'container', image: 'mine', engine: 'unix:///run/podman/podman.sock' } as const;
    expect(executorOptionsOf(flags, variables)).toEqual(flags);
  });

  it('leaves variables about containers out where another executor is chosen', () => {
    expect(executorOptionsOf({ executor: 'in-process' }, variables)).toEqual({ executor: 'in-process' });
    expect(executorOptionsOf({}, { ...variables, executor: undefined })).toEqual({});
  });

  it.each([
    [{ image: 'mine' }, '--image means nothing to the executor auto'],
    [{ executor: 'subprocess', engine: 'unix:///x' } as const, '--engine means nothing to the executor subprocess'],
    [{ executor: 'in-process', image: 'mine' } as const, '--image means nothing to the executor in-process'],
  ])('refuses %j', (flags, problem) => expect(() => executorOptionsOf(flags, {})).toThrow(problem));

  it('tells a variable that names no executor', () => {
    const wrong = () => executorOptionsOf({}, { executor: 'docker' });
    expect(wrong).toThrow('CELLA_EXECUTOR is "docker"');
    expect(executorOptionsOf({ executor: 'subprocess' }, { executor: 'docker' })).toEqual({ executor: 'subprocess' });
  });
});
