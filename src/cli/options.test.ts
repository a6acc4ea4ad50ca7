import { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { resolveSetting } from '../settings/setting.ts';
import { serverSettings, settings } from '../settings/settings-table.ts';
import { addSettings, givenSettings } from './options.ts';

const flagsOf = (...words: string[]) => {
  const { maxKernels, membersMay, flushResults, logLevel, idleMs } = serverSettings;
  const { tools, redis, index, extraIndex } = settings;
  const command = addSettings(new Command('x').exitOverride(), [
    maxKernels,
    membersMay,
    tools,
    flushResults,
    logLevel,
    idleMs,
    redis,
    index,
    extraIndex,
  ]);
  command.configureOutput({ writeErr: () => {} });
  return command.parse(words, { from: 'user' }).opts();
};

describe('flags from the table', () => {
  it('have the values of their kind', () => {
    const words = ['--max-kernels', '8', '--tools', 'a:b', '--tools', 'c', '--members-may', 'network,folders'];
    expect(flagsOf(...words, '--no-flush', '--idle', '0.5')).toEqual({
      maxKernels: 8,
      tools: ['a:b', 'c'],
      membersMay: ['network', 'folders'],
      flush: false,
      idle: 500,
    });
  });

  it.each([
    [['--max-kernels', '0'], 'a whole number from 1'],
    [['--members-may', 'fly'], '"fly" is unknown'],
    [['--log-level', 'loud'], 'debug, info'],
    [['--tools', ''], 'must not be empty'],
    [['--idle', '-1'], 'seconds above 0'],
  ])('refuse %j', (words, problem) => expect(() => flagsOf(...words)).toThrow(problem));

  it.each([
    ['--redis', 'redis://:hush@127.0.0.1', 'CELLA_REDIS'],
    ['--redis', 'rediss://ada:hush@127.0.0.1:6379/1', 'CELLA_REDIS'],
    ['--index', 'https://hush@packages.example/simple', 'CELLA_INDEX'],
    ['--extra-index', 'https://ada:hush@packages.example/simple', 'CELLA_EXTRA_INDEX'],
  ])('refuse %s with a password, do not repeat it, and say where to put it', (flag, address, variable) => {
    let refusal: unknown;
    try {
      flagsOf(flag, address);
    } catch (error) {
      refusal = error;
    }
    expect(refusal).toMatchObject({ message: expect.not.stringContaining('hush'), advice: expect.any(String) });
    expect(refusal).toMatchObject({ advice: expect.stringContaining(variable) });
  });
});

describe('givenSettings', () => {
  it('has the given flags, under the names of the table, in their groups', () => {
    const flags = flagsOf('--idle', '2', '--no-flush', '--tools', 'a');
    const { idleMs, flushResults, maxKernels } = serverSettings;
    const group = { idleMs, more: { flushResults, maxKernels } };
    expect(givenSettings(group, flags)).toEqual({ idleMs: 2000, more: { flushResults: false } });
    expect(givenSettings(group, flagsOf())).toEqual({ more: {} });
  });
});

describe('resolveSetting', () => {
  it('is the flag, else the variable, else the default', () => {
    const variables = { CELLA_PORT: '80' };
    expect(resolveSetting(serverSettings.port, 1, variables)).toBe(1);
    expect(resolveSetting(serverSettings.port, undefined, variables)).toBe(80);
    expect(resolveSetting(serverSettings.port, undefined)).toBe(7710);
    expect(resolveSetting(serverSettings.logFile, undefined)).toBeUndefined();
  });

  it('names an invalid variable, and the flag to use instead', () => {
    const read = () => resolveSetting(serverSettings.port, undefined, { CELLA_PORT: 'http' });
    expect(read).toThrow('CELLA_PORT is "http". It must be a port');
    expect(read).toThrow(expect.objectContaining({ advice: 'Correct it, or use --port.' }));
  });
});
