import { describe, expect, it } from 'vitest';
import { resolvePackages } from '../settings/process-config.ts';
import { parseMegabytes, parseSeconds } from './options.ts';
import { parseNetwork, sessionOptions, toExecutorOptions } from './session-flags.ts';

const defaults = { agentKey: undefined, dataDir: '/data', python: undefined };

describe('parseSeconds', () => {
  it.each([
    ['1', 1000],
    ['0.5', 500],
    ['.25', 250],
    ['3.', 3000],
    ['0.0001', 1],
  ])('%s is %i ms', (text, milliseconds) => expect(parseSeconds(text)).toBe(milliseconds));

  it.each(['0', '0.0', '-1', '', '.', 'x', '1s', '1e3', 'Infinity', '0x10', '9999999'])('refuses %j', (text) => {
    expect(() => parseSeconds(text)).toThrow('a number of seconds above 0');
  });
});

describe('parseMegabytes', () => {
  it('takes whole numbers', () => expect(parseMegabytes('512')).toBe(512));
  it.each(['31', '0', '64.5', '-64', '', 'lots', '9999999'])('refuses %j', (text) => {
    expect(() => parseMegabytes(text)).toThrow('a whole number of megabytes');
  });
});

describe('sessionOptions', () => {
  it('requests a sandbox by default', () => {
    expect(sessionOptions({}, defaults)).toEqual({ dataDir: '/data', sandbox: 'on', typed: [] });
  });

  it('lets a flag win over the environment', () => {
    const environment = { agentKey: 'env', dataDir: '/env', python: 'python-env' };
    expect(sessionOptions({}, environment)).toMatchObject({ agentKey: 'env', dataDir: '/env', python: 'python-env' });
    const flags = { key: 'flag', data: '/flag', python: 'python-flag' };
    const won = { agentKey: 'flag', dataDir: '/flag', python: 'python-flag' };
    expect(sessionOptions(flags, environment)).toMatchObject(won);
  });

  it('passes on limits and folders', () => {
    const options = sessionOptions({ memory: 64, cwd: 'here', network: 'host' }, defaults);
    expect(options).toMatchObject({
      limits: { memoryMb: 64 },
      cwd: `${process.cwd()}/here`,
      sandbox: { network: 'host' },
    });
  });

  it('passes CELLA_PYTHON only to executors that use it', () => {
    const environment = { ...defaults, python: 'python-env', executor: 'in-process' };
    const own = { dataDir: '/data', executor: 'in-process', sandbox: 'on', typed: [] };
    expect(sessionOptions({}, environment)).toEqual(own);
    expect(sessionOptions({ executor: 'subprocess' }, environment)).toMatchObject({ python: 'python-env' });
    expect(sessionOptions({ python: 'mine' }, environment)).toMatchObject({ python: 'mine' });
  });

  it('refuses a promise that it cannot keep: no network without a sandbox', () => {
    expect(() => sessionOptions({ sandbox: 'off', network: 'none' }, defaults)).toThrow('nothing blocks the network');
    expect(() => sessionOptions({ sandbox: 'off', network: { allow: ['a.org'] } }, defaults)).toThrow('nothing blocks');
    expect(sessionOptions({ sandbox: 'off', network: 'host' }, defaults).sandbox).toBe('off');
  });

  it('reads a network: none, all of it, or a normalized list of hosts', () => {
    expect(parseNetwork('none')).toBe('none');
    expect(parseNetwork('host')).toBe('host');
    expect(parseNetwork('allow:PyPI.org,*.example.org:8443')).toEqual({ allow: ['pypi.org', '*.example.org:8443'] });
    expect(sessionOptions({ network: { allow: ['a.org'] } }, defaults).sandbox).toEqual({
      network: { allow: ['a.org'] },
    });
    for (const text of ['', 'all', 'allow:', 'allow:a.org,', 'allow:http://a.org', 'allow:*', 'a.org']) {
      expect(() => parseNetwork(text)).toThrow(/Allowed choices are none, host|is not a host such as/);
    }
  });

  it('refuses a promise that it cannot keep: a memory limit without a sandbox', () => {
    expect(() => sessionOptions({ sandbox: 'off', memory: 64 }, defaults)).toThrow('nothing limits the memory');
    expect(sessionOptions({ sandbox: 'on', memory: 64 }, defaults).limits).toEqual({ memoryMb: 64 });
  });
});

const variables = { executor: 'container', image: 'env', engine: 'unix:///env.sock' };

describe('executorOptionsOf', () => {
  it('says nothing where nothing is said', () => expect(toExecutorOptions({}, {})).toEqual({}));

  it('lets flags win over variables', () => {
    expect(toExecutorOptions({}, variables)).toEqual({
      executor: 'container',
      image: 'env',
      engine: 'unix:///env.sock',
    });
    const flags = { executor: 'container', image: 'mine', engine: 'unix:///run/podman/podman.sock' } as const;
    expect(toExecutorOptions(flags, variables)).toEqual(flags);
  });

  it('ignores variables about containers if another executor is chosen', () => {
    expect(toExecutorOptions({ executor: 'in-process' }, variables)).toEqual({ executor: 'in-process' });
    expect(toExecutorOptions({}, { ...variables, executor: undefined })).toEqual({});
  });

  it.each([
    [{ image: 'mine' }, '--image cannot be used with the executor auto'],
    [{ executor: 'subprocess', engine: 'unix:///x' } as const, '--engine cannot be used with the executor subprocess'],
    [{ executor: 'in-process', image: 'mine' } as const, '--image cannot be used with the executor in-process'],
  ])('refuses %j', (flags, problem) => expect(() => toExecutorOptions(flags, {})).toThrow(problem));

  it('reports a variable with an unknown executor', () => {
    const wrong = () => toExecutorOptions({}, { executor: 'docker' });
    expect(wrong).toThrow('CELLA_EXECUTOR is "docker"');
    expect(toExecutorOptions({ executor: 'subprocess' }, { executor: 'docker' })).toEqual({ executor: 'subprocess' });
  });
});

const index = 'https://packages.example/simple';

describe('packageOptionsOf', () => {
  it('says nothing where nothing is said', () => expect(resolvePackages({}, {})).toBeUndefined());

  it('lets flags win over variables', () => {
    const packages = { index: 'https://env.example/', wheelFolders: ['/env'], noIndex: true };
    expect(resolvePackages({ index, wheels: ['here'] }, { packages })).toEqual({
      index,
      extraIndexes: [],
      wheelFolders: [`${process.cwd()}/here`],
      noIndex: false,
    });
    expect(resolvePackages({}, { packages })).toEqual({ extraIndexes: [], wheelFolders: ['/env'], noIndex: true });
  });

  it('--no-index removes the index of the environment', () => {
    const packages = { index, extraIndexes: [index] };
    expect(resolvePackages({ index: false }, { packages })).toEqual({
      extraIndexes: [],
      wheelFolders: [],
      noIndex: true,
    });
    expect(() => resolvePackages({ index: false, extraIndex: [index] }, {})).toThrow('--no-index');
  });

  it.each(['nonsense', 'file:///x', 'https://user:s3cret@host/?q'])('refuses %s, and does not repeat it', (wrong) => {
    expect(() => resolvePackages({ index: wrong }, {})).toThrow('not an http or https URL');
    expect(() => resolvePackages({ index: wrong }, {})).not.toThrow('s3cret');
  });
});
