/** How the value of a setting is written in a flag, in a variable, in a config file and in a program. */

import type { ZodType, z } from 'zod';

export interface ValueType<T> {
  /** From a flag or a variable. Fails with a RangeError that says what it must be. */
  parse(text: string): T;
  /** Of the value itself, as a program gives it. zod is handed in: the command line starts without it. */
  schema(zod: typeof z): ZodType<T, T>;
  /** What a config file may hold. */
  readonly fileType: 'text' | 'number' | 'switch' | 'list';
  /** Between the parts of a list in a variable. */
  readonly separator?: string;
  /** All that it can be, where that is a few words. */
  readonly choices?: readonly string[];
  /** `path`: in a config file, relative to its folder. `program`: the same where it has a slash. */
  readonly pathKind?: 'path' | 'program';
}

export const text: ValueType<string> = {
  parse: notEmpty,
  schema: (zod) => zod.string().min(1),
  fileType: 'text',
};
export const path: ValueType<string> = { ...text, pathKind: 'path' };
/** A path, or a name on PATH. */
export const program: ValueType<string> = { ...text, pathKind: 'program' };

/** In a variable `1`, and nothing else, turns it on. */
export const onOff: ValueType<boolean> = {
  parse: (given) => given === '1',
  schema: (zod) => zod.boolean(),
  fileType: 'switch',
};
/** The same for a flag `--no-…`, which turns something off. */
export const offSwitch: ValueType<boolean> = { ...onOff, parse: (given) => given !== '1' };

export const paths: ValueType<string[]> = { ...listOf(':'), pathKind: 'path' };
export const urls: ValueType<string[]> = listOf(' ');
export const words: ValueType<string[]> = listOf(',');
/** Case does not matter in them. */
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

export const port = number('a port from 1 to 65535, or 0 for any that is free', { most: 65_535 });
export const count = number('a whole number from 1 to 100000', { least: 1, most: 100_000 });
export const many = number('a whole number from 1 to 10000000', { least: 1, most: 10_000_000 });
export const megabytes = number('a whole number of megabytes', { most: 1_000_000_000 });
export const tokens = number('a whole number of tokens', { most: 9_999_999_999 });
/** To bytes. */
export const megabytesAsBytes = number('a whole number of megabytes', { most: 1_000_000_000, unit: 1024 * 1024 });
/** To milliseconds. */
export const hours = number('a whole number of hours from 1 to 8760', { least: 1, most: 8760, unit: 3_600_000 });
/** To milliseconds; 0 is for ever. */
export const days = number('a whole number of days', { most: 36_500, unit: 24 * 3_600_000 });

/** As people write them, to whole milliseconds. */
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

/** An empty folder would be this one, and an empty name none: both come from a variable that is not set. */
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
