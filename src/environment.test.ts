import { homedir } from 'node:os';
import { describe, expect, it } from 'vitest';
import { readEnvironment } from './environment.ts';

describe('readEnvironment', () => {
  it('takes what is set', () => {
    const env = { CELLA_AGENT_KEY: 'ada', CELLA_DATA_DIR: '/data', CELLA_PYTHON: 'python3.12', NO_COLOR: '1' };
    expect(readEnvironment(env)).toEqual({ agentKey: 'ada', dataDir: '/data', python: 'python3.12', noColor: true });
  });

  it('takes a variable that is set to nothing as not set', () => {
    const env = { CELLA_AGENT_KEY: '', CELLA_DATA_DIR: '', CELLA_PYTHON: '', NO_COLOR: '', HOME: '/home/ada' };
    const dataDir = '/home/ada/.local/share/cella';
    expect(readEnvironment(env)).toEqual({ agentKey: undefined, dataDir, python: undefined, noColor: false });
  });

  it('puts the data where XDG_DATA_HOME says, if it is absolute', () => {
    expect(readEnvironment({ XDG_DATA_HOME: '/xdg', HOME: '/home/ada' }).dataDir).toBe('/xdg/cella');
    expect(readEnvironment({ XDG_DATA_HOME: 'xdg', HOME: '/home/ada' }).dataDir).toBe('/home/ada/.local/share/cella');
  });

  it('makes a relative data folder absolute, and manages without HOME', () => {
    expect(readEnvironment({ CELLA_DATA_DIR: 'data' }).dataDir).toBe(`${process.cwd()}/data`);
    expect(readEnvironment({}).dataDir).toBe(`${homedir()}/.local/share/cella`);
  });
});
