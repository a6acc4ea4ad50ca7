import { homedir } from 'node:os';
import { describe, expect, it, test } from 'vitest';
import {
  describeUnknownVariable,
  readCredential,
  readProcessConfig,
  setConfigDefaults,
  unknownVariables,
} from './process-config.ts';
import { resolveSetting } from './setting.ts';
import { settings } from './settings-table.ts';

describe('readEnvironment', () => {
  it('reads set variables', () => {
    const env = { CELLA_AGENT_KEY: 'ada', CELLA_DATA_DIR: '/data', CELLA_PYTHON: 'python3.12', NO_COLOR: '1' };
    const own = { PATH: '/opt/bin:/bin', HOME: '/home/ada' };
    const redis = { CELLA_STORAGE: 'redis', CELLA_REDIS: 'redis://localhost', CELLA_PREFIX: 'team' };
    const container = {
      CELLA_EXECUTOR: 'container',
      CELLA_IMAGE: 'mine',
      CELLA_ENGINE: 'unix:///run/podman.sock',
    };
    expect(readProcessConfig({ ...env, ...redis, ...own, ...container, CELLA_AUTO_SH: '1' })).toEqual({
      executor: 'container',
      image: 'mine',
      engine: 'unix:///run/podman.sock',
      storage: 'redis',
      redis: 'redis://localhost',
      prefix: 'team',
      packages: {},
      unknownVariables: [],
      variables: {
        CELLA_AGENT_KEY: 'ada',
        CELLA_DATA_DIR: '/data',
        CELLA_PYTHON: 'python3.12',
        CELLA_AUTO_SH: '1',
        ...redis,
        ...container,
      },
      agentKey: 'ada',
      dataDir: '/data',
      python: 'python3.12',
      searchPath: '/opt/bin:/bin',
      home: '/home/ada',
      noColor: true,
    });
  });

  it('treats an empty variable as not set', () => {
    const empty = {
      CELLA_STORAGE: '',
      CELLA_REDIS: '',
      CELLA_PREFIX: '',
      CELLA_EXECUTOR: '',
      CELLA_IMAGE: '',
      NO_COLOR: '',
    };
    const env = { CELLA_AGENT_KEY: '', CELLA_DATA_DIR: '', CELLA_PYTHON: '', ...empty, HOME: '/home/ada' };
    const dataDir = '/home/ada/.local/share/cella';
    const unset = { agentKey: undefined, dataDir, python: undefined, packages: {}, noColor: false };
    expect(readProcessConfig(env)).toEqual({
      ...unset,
      variables: {},
      unknownVariables: [],
      searchPath: '',
      home: '/home/ada',
    });
  });

  it('splits lists of folders and of package indexes', () => {
    const env = { CELLA_INDEX: 'https://a/simple', CELLA_EXTRA_INDEX: ' https://b  https://c', CELLA_NO_INDEX: '1' };
    expect(readProcessConfig({ ...env, CELLA_WHEELS: '/w::/x', CELLA_TOOLS: '/t' })).toMatchObject({
      packages: {
        index: 'https://a/simple',
        extraIndexes: ['https://b', 'https://c'],
        wheelFolders: ['/w', '/x'],
        noIndex: true,
      },
      toolFolders: ['/t'],
    });
  });

  it('uses the container engine in DOCKER_HOST, and the folder of a user’s sockets if it is absolute', () => {
    const env = { DOCKER_HOST: 'unix:///run/docker.sock', XDG_RUNTIME_DIR: '/run/user/7' };
    expect(readProcessConfig(env)).toMatchObject({ engine: 'unix:///run/docker.sock', runtimeDir: '/run/user/7' });
    expect(readProcessConfig({ DOCKER_HOST: '', XDG_RUNTIME_DIR: 'run' })).toMatchObject({
      engine: undefined,
      runtimeDir: undefined,
    });
  });

  it.each(['0', 'true', 'yes', ''])('accepts no other value for CELLA_AUTO_SH=1: %j', (word) => {
    const { variables } = readProcessConfig({ CELLA_AUTO_SH: word });
    expect(resolveSetting(settings.autoSh, undefined, variables)).toBe(false);
  });

  it('uses XDG_DATA_HOME for the data, if it is absolute', () => {
    expect(readProcessConfig({ XDG_DATA_HOME: '/xdg', HOME: '/home/ada' }).dataDir).toBe('/xdg/cella');
    expect(readProcessConfig({ XDG_DATA_HOME: 'xdg', HOME: '/home/ada' }).dataDir).toBe('/home/ada/.local/share/cella');
  });

  it('makes a relative data folder absolute, and works without HOME', () => {
    expect(readProcessConfig({ CELLA_DATA_DIR: 'data' }).dataDir).toBe(`${process.cwd()}/data`);
    expect(readProcessConfig({}).dataDir).toBe(`${homedir()}/.local/share/cella`);
  });
});

describe('the values of a config file', () => {
  it('apply if this process has no such variable', () => {
    const before = process.env.CELLA_PYTHON;
    try {
      setConfigDefaults({ CELLA_PYTHON: 'from-file', CELLA_PREFIX: 'from-file', CELLA_ENGINE: 'from-file' });
      process.env.CELLA_PYTHON = 'from-variable';
      expect(readProcessConfig()).toMatchObject({ python: 'from-variable', prefix: 'from-file', engine: 'from-file' });
      process.env.CELLA_PYTHON = '';
      expect(readProcessConfig()).toMatchObject({ python: 'from-file', variables: { CELLA_PYTHON: 'from-file' } });
      expect(readProcessConfig({})).toMatchObject({ python: undefined, variables: {} });
    } finally {
      setConfigDefaults({});
      if (before === undefined) delete process.env.CELLA_PYTHON;
      else process.env.CELLA_PYTHON = before;
    }
  });
});

describe('readCredential', () => {
  it('finds a secret by the name in a tool’s definition', () => {
    const env = { CELLA_CREDENTIAL_TICKETS_TOKEN: 'hush', CELLA_CREDENTIAL_EMPTY: '' };
    expect(['tickets_token', 'tickets-token', 'Tickets.Token'].map((name) => readCredential(name, env))).toEqual([
      'hush',
      'hush',
      'hush',
    ]);
    expect([readCredential('empty', env), readCredential('other', env)]).toEqual([undefined, undefined]);
  });
});

test.each([
  ['CELLA_MAX_KERNEL', 'CELLA_MAX_KERNELS'],
  ['CELLA_MAXKERNELS', 'CELLA_MAX_KERNELS'],
  ['CELLA_DATA', 'CELLA_DATA_DIR'],
  ['CELLA_MASTERKEY', 'CELLA_MASTER_KEY'],
  ['CELLA_REDDIS', 'CELLA_REDIS'],
])('%s is reported as a probable misspelling of %s', (name, meant) => {
  expect(unknownVariables([name])).toEqual([{ name, meant }]);
  expect(describeUnknownVariable({ name, meant: meant })).toBe(
    `Unknown setting ${name} (ignored). Did you mean ${meant}?`,
  );
});

test('an unknown one is reported as well, without its value', () => {
  expect(unknownVariables(['CELLA_FROBNICATE'])).toEqual([{ name: 'CELLA_FROBNICATE' }]);
  expect(describeUnknownVariable({ name: 'CELLA_\u001b[31m' })).toBe(
    'Unknown setting CELLA_?[31m (ignored). docs/settings.md lists all of them.',
  );
});

test('settings, secrets of tools, internal variables and foreign variables are not reported', () => {
  const names = ['CELLA_PORT', 'CELLA_CREDENTIAL_TICKETS', 'CELLA_ENVIRONMENT', 'CELLA_COMMAND', 'PATH', 'XCELLA_PORT'];
  expect(unknownVariables(names)).toEqual([]);
});
