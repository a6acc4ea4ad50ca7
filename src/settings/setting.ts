/** One thing that can be set: by a flag, by a variable, in a config file; the first of them that says something wins. */

import { CellaError } from '../protocol/errors.ts';
import type { ValueType } from './value-types.ts';

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
  /** Whether it can hold a password, so that no others may read where it is written. */
  readonly mayHoldPassword?: boolean;
}

export type SettingValue<S> =
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

/** Of what has no flag, and never stands in a file. */
export function secret(variable: string, description: string, type: ValueType<string>): Setting<string> {
  return { variable, type, defaultText: '', description };
}

/** The same, and no config file can say it. */
export function notInFile<T>({ key: _key, ...rest }: Setting<T>): Setting<T> {
  return rest;
}

/** The same, for every command at once: a variable or the config file says it. */
export function withoutFlag<S extends Setting>({ flag: _flag, ...rest }: S): Omit<S, 'flag'> {
  return rest;
}

/** Whether an address has one, or a name, which may be a token. */
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

/** What was given, else the variable (the config file stands for variables), else the default. INVALID_OPTIONS if the text is wrong. */
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
    const problem = cause instanceof Error ? cause.message : String(cause);
    const advice = flag === '' ? 'Correct it.' : `Correct it, or use ${flag.replace(/ .*/, '')}.`;
    throw new CellaError('INVALID_OPTIONS', `${variable} is ${JSON.stringify(text)}. ${problem}`, { advice });
  }
}
