/**
 * One setting: how to write its value as a flag, as a variable and in a config file. `resolveSetting` prefers a flag to a
 * variable; `readProcessConfig` (process-config.ts) prefers a variable to the config file.
 */

import type { ZodType, z } from 'zod';
import { messageOf } from '../lib/values.ts';
import { CellaError } from '../protocol/errors.ts';

export interface ValueType<T> {
  /** Parses a flag or a variable. Throws a RangeError that describes the expected value. */
  parse(text: string): T;
  /** The schema of the value that a program gives. zod is a parameter, because the command line starts without it. */
  schema(zod: typeof z): ZodType<T, T>;
  /** The type in a config file. */
  readonly fileType: 'text' | 'number' | 'switch' | 'list';
  /** The separator of a list in a variable. */
  readonly separator?: string;
  /** All allowed values, if they are a few words. */
  readonly choices?: readonly string[];
  /** `path`: relative to the config file's folder. `program`: the same, but only if it contains a slash. */
  readonly pathKind?: 'path' | 'program';
}

export const text: ValueType<string> = { parse: notEmpty, schema: (zod) => zod.string().min(1), fileType: 'text' };
export const path: ValueType<string> = { ...text, pathKind: 'path' };
/** A path, or a name on PATH. */
export const program: ValueType<string> = { ...text, pathKind: 'program' };

/** In a variable, only `1` turns it on. */
export const onOff: ValueType<boolean> = {
  parse: (given) => given === '1',
  schema: (zod) => zod.boolean(),
  fileType: 'switch',
};
/** The same for a `--no-…` flag, which turns something off. */
export const offSwitch: ValueType<boolean> = { ...onOff, parse: (given) => given !== '1' };

export const paths: ValueType<string[]> = { ...listOf(':'), pathKind: 'path' };
export const urls: ValueType<string[]> = listOf(' ');
export const words: ValueType<string[]> = listOf(',');
/** Host names are case-insensitive. */
export const hostNames: ValueType<string[]> = {
  ...words,
  parse: (given) => words.parse(given).map((name) => name.toLowerCase()),
};

export function oneOf<const T extends string>(choices: readonly T[]): ValueType<T> {
  return { parse: (given) => among(choices, given), schema: (zod) => zod.enum(choices), fileType: 'text', choices };
}

export function anyOf<const T extends string>(choices: readonly T[]): ValueType<T[]> {
  const { parse, ...list } = listOf(',');
  return {
    ...list,
    parse: (given) => parse(given).map((word) => among(choices, word)),
    schema: (zod) => zod.array(zod.enum(choices)),
  };
}

export const port = number('a port from 1 to 65535, or 0 for a free one', { most: 65_535 });
export const count = number('a whole number from 1 to 100000', { least: 1, most: 100_000 });
export const many = number('a whole number from 1 to 10000000', { least: 1, most: 10_000_000 });
export const megabytes = number('a whole number of megabytes', { most: 1_000_000_000 });
export const tokens = number('a whole number of tokens', { most: 9_999_999_999 });
/** Converts to bytes. */
export const megabytesAsBytes = number('a whole number of megabytes', { most: 1_000_000_000, unit: 1024 * 1024 });
/** Converts to milliseconds. */
export const hours = number('a whole number of hours from 1 to 8760', { least: 1, most: 8760, unit: 3_600_000 });
/** Converts to milliseconds; 0 means no limit. */
export const days = number('a whole number of days', { most: 36_500, unit: 24 * 3_600_000 });

/** Converts to whole milliseconds. */
export const seconds = secondsUpTo(2_147_483, 'a number of seconds above 0, such as 30 or 0.5');
export const secondsOfDay = secondsUpTo(86_400, 'a number of seconds above 0, such as 30 or 0.5, and at most 86400');
export const secondsOrNone = secondsUpTo(86_400, 'a number of seconds, such as 30 or 0.5, and at most 86400', 0);

export const dollars: ValueType<number> = {
  parse: (given) => {
    if (/^\d{1,7}(\.\d{1,6})?$/.test(given)) return Number(given);
    throw new RangeError('It must be a number of US dollars, such as 5 or 0.50.');
  },
  schema: (zod) => zod.number().min(0),
  fileType: 'number',
};

/** Empty text most likely comes from a shell variable that is not set. */
function notEmpty(given: string): string {
  if (given !== '') return given;
  throw new RangeError('It must not be empty.');
}

/** `unit`: what one of it is in the unit of the value. */
function number(
  what: string,
  { least = 0, most, unit = 1 }: { readonly least?: number; readonly most: number; readonly unit?: number },
): ValueType<number> {
  return {
    parse: (given) => {
      const value = /^\d{1,10}$/.test(given) ? Number(given) : Number.NaN;
      if (value >= least && value <= most) return value * unit;
      throw new RangeError(`It must be ${what}.`);
    },
    // A program may ask for less than one unit.
    schema: (zod) =>
      zod
        .int()
        .min(unit === 1 ? least : 0)
        .max(Math.min(most * unit, Number.MAX_SAFE_INTEGER)),
    fileType: 'number',
  };
}

function secondsUpTo(most: number, what: string, leastMs = 1): ValueType<number> {
  return {
    parse: (given) => {
      const milliseconds = /^\d*\.?\d+$|^\d+\.$/.test(given) ? Math.ceil(Number(given) * 1000) : Number.NaN;
      if (milliseconds >= leastMs && milliseconds <= most * 1000) return milliseconds;
      throw new RangeError(`It must be ${what}.`);
    },
    // A program turns it off with 0.
    schema: (zod) =>
      zod
        .int()
        .min(0)
        .max(most * 1000),
    fileType: 'number',
  };
}

function listOf(separator: string): ValueType<string[]> {
  return {
    parse: (given) =>
      given
        .split(separator === ' ' ? /\s+/ : separator)
        .map((part) => part.trim())
        .filter((part) => part !== ''),
    schema: (zod) => zod.array(zod.string().min(1)),
    fileType: 'list',
    separator,
  };
}

function among<T extends string>(choices: readonly T[], given: string): T {
  const found = choices.find((each) => each === given);
  if (found !== undefined) return found;
  throw new RangeError(`${JSON.stringify(given)} is unknown; allowed: ${choices.join(', ')}.`);
}

export interface Setting<T = unknown> {
  /** As it is typed, with what it takes: `--port <port>`. */
  readonly flag?: string;
  readonly variable?: string;
  /** Its name in a config file. */
  readonly key?: string;
  readonly type: ValueType<T>;
  /** The default, as a variable would have it: '' is off, or an empty list. Without a default, the setting may be undefined. */
  readonly default?: string;
  /** The default in help and docs; empty if there is none. */
  readonly defaultText: string;
  /** One line that says what it is for. */
  readonly description: string;
  /** Whether the value can contain a password, so that other users must not be able to read it. */
  readonly mayHoldPassword?: boolean;
}

type SettingValue<S> =
  S extends Setting<infer T> ? (S extends { readonly default: string } ? T : T | undefined) : never;

/** Settings by the names that they have in code, some of them in groups. */
export interface SettingGroup {
  readonly [name: string]: Setting | SettingGroup;
}

/** The values of a group, with defaults filled in. */
export type Resolved<G> = {
  readonly [N in keyof G]: G[N] extends Setting ? SettingValue<G[N]> : Resolved<G[N]>;
};

/** Some of the values of a group. */
export type Given<G> = {
  readonly [N in keyof G]?: (G[N] extends Setting<infer T> ? T : Given<G[N]>) | undefined;
};

type More<T> = Partial<Omit<Setting<T>, 'type' | 'flag' | 'description'>>;

/** A flag `--max-kernels` is CELLA_MAX_KERNELS as a variable, and `max-kernels` in a file, unless `more` says otherwise. */
export function setting<T>(flag: string, description: string, type: ValueType<T>): Setting<T>;
export function setting<T, const M extends More<T>>(
  flag: string,
  description: string,
  type: ValueType<T>,
  more: M,
): Setting<T> & M;
export function setting<T>(flag: string, description: string, type: ValueType<T>, more: More<T> = {}): Setting<T> {
  const key = flag.replace(/^--/, '').replace(/ .*$/, '');
  const variable = `CELLA_${key.replaceAll('-', '_').toUpperCase()}`;
  return { flag, variable, key, type, defaultText: more.default ?? '', description, ...more };
}

/** A setting without a flag, which is not allowed in a config file. */
export function secret(variable: string, description: string, type: ValueType<string>): Setting<string> {
  return { variable, type, defaultText: '', description };
}

/** The same setting, but it cannot be set in a config file. */
export function notInFile<T>({ key: _key, ...rest }: Setting<T>): Setting<T> {
  return rest;
}

/** The same setting without a flag: only a variable or the config file can set it. */
export function withoutFlag<S extends Setting>({ flag: _flag, ...rest }: S): Omit<S, 'flag'> {
  return rest;
}

/** Whether an address contains a password, or a user name, which may be a token. */
export function holdsPassword(addresses: string): boolean {
  return /:\/\/[^/]*:[^/]*@|:\/\/[^/:]+@/.test(addresses);
}

export function isSetting(entry: Setting | SettingGroup): entry is Setting {
  return typeof entry.description === 'string';
}

/** All settings of a group and of the groups in it, in their order; the name of one in a group is `group.name`. */
export function settingsIn(group: SettingGroup, prefix = ''): (readonly [name: string, setting: Setting])[] {
  return Object.entries(group).flatMap(([name, entry]) =>
    isSetting(entry) ? [[`${prefix}${name}`, entry] as const] : settingsIn(entry, `${prefix}${name}.`),
  );
}

export type Variables = Readonly<Record<string, string>>;

/**
 * The given value, or else the variable (the config file stands in for variables), or else the default. Throws INVALID_OPTIONS
 * for invalid text.
 */
export function resolveSetting<S extends Setting>(
  setting: S,
  given: SettingValue<S> | undefined,
  variables?: Variables,
): SettingValue<S>;
export function resolveSetting(setting: Setting, given: unknown, variables: Variables = {}): unknown {
  if (given !== undefined) return given;
  const { variable = '', flag = '', type } = setting;
  const text = variables[variable];
  if (text === undefined) return setting.default === undefined ? undefined : type.parse(setting.default);
  try {
    return type.parse(text);
  } catch (cause) {
    const problem = messageOf(cause);
    const advice = flag === '' ? 'Correct it.' : `Correct it, or use ${flag.replace(/ .*/, '')}.`;
    throw new CellaError('INVALID_OPTIONS', `${variable} is ${JSON.stringify(text)}. ${problem}`, { advice });
  }
}
