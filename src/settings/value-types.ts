/** How the value of a setting is written in a flag, in a variable and in a config file. */

export interface ValueType<T> {
  /** From a flag or a variable. Fails with a RangeError that says what it must be. */
  parse(text: string): T;
  /** What a config file may hold. */
  readonly fileType: 'text' | 'number' | 'switch' | 'list';
  /** Between the parts of a list in a variable. */
  readonly separator?: string;
  /** All that it can be, where that is a few words. */
  readonly choices?: readonly string[];
  /** `path`: in a config file, relative to its folder. `program`: the same where it has a slash. */
  readonly pathKind?: 'path' | 'program';
}

export const text: ValueType<string> = { parse: notEmpty, fileType: 'text' };
export const path: ValueType<string> = { parse: notEmpty, fileType: 'text', pathKind: 'path' };
/** A path, or a name on PATH. */
export const program: ValueType<string> = { parse: notEmpty, fileType: 'text', pathKind: 'program' };

/** In a variable `1`, and nothing else, turns it on. */
export const onOff: ValueType<boolean> = { parse: (given) => given === '1', fileType: 'switch' };

export const paths: ValueType<string[]> = { ...listOf(':'), pathKind: 'path' };
export const urls: ValueType<string[]> = listOf(' ');
export const words: ValueType<string[]> = listOf(',');

export function oneOf<const T extends string>(choices: readonly T[]): ValueType<T> {
  return { parse: (given) => among(choices, given), fileType: 'text', choices };
}

export function anyOf<const T extends string>(choices: readonly T[]): ValueType<T[]> {
  const { parse, ...list } = listOf(',');
  return { ...list, parse: (given) => parse(given).map((word) => among(choices, word)) };
}

export const port = number('a port from 1 to 65535, or 0 for any that is free', { most: 65_535 });
export const count = number('a whole number from 1 to 100000', { least: 1, most: 100_000 });
export const many = number('a whole number from 1 to 10000000', { least: 1, most: 10_000_000 });
export const megabytes = number('a whole number of megabytes', { most: 1_000_000_000 });
export const tokens = number('a whole number of tokens', { most: 9_999_999_999 });
/** To bytes. */
export const megabytesAsBytes = times(megabytes, 1024 * 1024);
/** To milliseconds. */
export const hours = times(number('a whole number of hours from 1 to 8760', { least: 1, most: 8760 }), 3_600_000);
/** To milliseconds; 0 is for ever. */
export const days = times(number('a whole number of days', { most: 36_500 }), 24 * 3_600_000);

/** As people write them, to whole milliseconds. */
export const seconds = secondsUpTo(2_147_483, 'a number of seconds above 0, such as 30 or 0.5');
export const secondsOfDay = secondsUpTo(86_400, 'a number of seconds above 0, such as 30 or 0.5, and at most 86400');

export const dollars: ValueType<number> = {
  parse: (given) => {
    if (/^\d{1,7}(\.\d{1,6})?$/.test(given)) return Number(given);
    throw new RangeError('It must be a number of US dollars, such as 5 or 0.50.');
  },
  fileType: 'number',
};

/** An empty folder would be this one, and an empty name none: both come from a variable that is not set. */
function notEmpty(given: string): string {
  if (given !== '') return given;
  throw new RangeError('It must not be empty.');
}

function number(
  what: string,
  { least = 0, most }: { readonly least?: number; readonly most: number },
): ValueType<number> {
  return {
    parse: (given) => {
      const value = /^\d{1,10}$/.test(given) ? Number(given) : Number.NaN;
      if (value >= least && value <= most) return value;
      throw new RangeError(`It must be ${what}.`);
    },
    fileType: 'number',
  };
}

function secondsUpTo(most: number, what: string): ValueType<number> {
  return {
    parse: (given) => {
      const milliseconds = /^\d*\.?\d+$|^\d+\.$/.test(given) ? Math.ceil(Number(given) * 1000) : 0;
      if (milliseconds > 0 && milliseconds <= most * 1000) return milliseconds;
      throw new RangeError(`It must be ${what}.`);
    },
    fileType: 'number',
  };
}

function times(kind: ValueType<number>, factor: number): ValueType<number> {
  return { ...kind, parse: (given) => kind.parse(given) * factor };
}

function listOf(separator: string): ValueType<string[]> {
  return {
    parse: (given) =>
      given
        .split(separator === ' ' ? /\s+/ : separator)
        .map((part) => part.trim())
        .filter((part) => part !== ''),
    fileType: 'list',
    separator,
  };
}

function among<T extends string>(choices: readonly T[], given: string): T {
  const found = choices.find((each) => each === given);
  if (found !== undefined) return found;
  throw new RangeError(`It knows no ${JSON.stringify(given)}: allowed are ${choices.join(', ')}.`);
}
