/** One thing that can be set: by a flag, by a variable, in a config file; the first of them that says something wins. */

import type { ValueType } from './value-types.ts';

export interface Setting<T = unknown> {
  /** As it is typed, with what it takes: `--port <port>`. */
  readonly flag?: string;
  readonly variable?: string;
  /** Its name in a config file. */
  readonly key?: string;
  readonly type: ValueType<T>;
  /** What holds where nobody says anything; empty where that is nothing. */
  readonly defaultText: string;
  /** One line that says what it is for. */
  readonly description: string;
  /** Whether it can hold a password, so that no others may read where it is written. */
  readonly mayHoldPassword?: boolean;
}

/** Whether an address has one, or a name, which may be a token. */
export function holdsPassword(addresses: string): boolean {
  return /:\/\/[^/]*:[^/]*@|:\/\/[^/:]+@/.test(addresses);
}

/** A flag `--max-kernels` is CELLA_MAX_KERNELS as a variable, and `max-kernels` in a file, where nothing else is said. */
export function setting<T>(
  flag: string,
  about: string,
  kind: ValueType<T>,
  more: Partial<Setting<T>> = {},
): Setting<T> {
  const key = flag.replace(/^--/, '').replace(/ .*$/, '');
  const variable = `CELLA_${key.replaceAll('-', '_').toUpperCase()}`;
  return { flag, variable, key, type: kind, defaultText: '', description: about, ...more };
}

/** Of what has no flag, and never stands in a file. */
export function secret(variable: string, about: string, kind: ValueType<string>): Setting<string> {
  return { variable, type: kind, defaultText: '', description: about };
}

/** The same, and no config file can say it. */
export function notInFile<T>({ key: _key, ...rest }: Setting<T>): Setting<T> {
  return rest;
}

/** The same, for every command at once: a variable or the config file says it. */
export function withoutFlag<T>({ flag: _flag, ...rest }: Setting<T>): Setting<T> {
  return rest;
}
