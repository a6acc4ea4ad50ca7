/** Commander options made from the table of settings, and parsers for values of options. */

import { type Command, InvalidArgumentError, Option } from 'commander';
import { messageOf } from '../lib/values.ts';
import { type Given, holdsPassword, isSetting, type Setting, type SettingGroup, seconds } from '../settings/setting.ts';
import { UsageError } from './command-errors.ts';

interface SettingWording {
  /** Replaces the description and the default, for a command that uses the setting in its own way. */
  readonly about?: string;
  readonly otherwise?: string;
  readonly group?: string;
}

export function addSetting<T>(command: Command, setting: Setting<T>, wording: SettingWording = {}): Command {
  const { type: kind, flag = '' } = setting;
  const option = new Option(flag, describeSetting(setting, wording));
  if (wording.group !== undefined) option.helpGroup(wording.group);
  if (kind.choices) option.choices(kind.choices);
  else if (kind.fileType !== 'switch') option.argParser(settingParser(setting));
  return command.addOption(option);
}

export function addSettings(command: Command, all: readonly Setting[], wording: SettingWording = {}): Command {
  for (const setting of all) addSetting(command, setting, wording);
  return command;
}

function describeSetting(
  { description: about, variable, defaultText: otherwise, type: kind }: Setting,
  wording: SettingWording,
): string {
  const last = wording.otherwise ?? otherwise;
  const value = kind.fileType === 'switch' ? `${variable}=1` : variable;
  return `${wording.about ?? about} (env: ${value}${last === '' ? '' : `, default: ${last}`})`;
}

/** A list flag may be repeated. Only commas split its value. */
function settingParser<T>(setting: Setting<T>): (text: string, before: unknown) => unknown {
  const { type: kind } = setting;
  return (text, before) => {
    if (text === '') throw new InvalidArgumentError('It must not be empty.');
    rejectVisiblePassword(setting, text);
    try {
      if (kind.fileType !== 'list') return kind.parse(text);
      const parts = kind.separator === ',' ? kind.parse(text) : [text];
      return [before ?? [], parts].flat();
    } catch (error) {
      throw new InvalidArgumentError(messageOf(error));
    }
  };
}

/** Every user of a machine can read the arguments of a running process. */
function rejectVisiblePassword({ mayHoldPassword, flag = '', variable, key }: Setting, text: string): void {
  if (!mayHoldPassword || !holdsPassword(text)) return;
  // Commander's own error would show the value.
  throw new UsageError(
    `The address after ${flag.replace(/ .*/, '')} has a password, and every user of this machine can read arguments.`,
    `Set it in ${variable}, or as \`${key}\` in a config file.`,
  );
}

/** The values of these settings from the command line, by name. */
export function givenSettings<G extends SettingGroup>(group: G, flags: object): Given<G> {
  const entries = Object.entries(group).map(([name, entry]) => [
    name,
    isSetting(entry) ? givenFlag(entry, flags) : givenSettings(entry, flags),
  ]);
  // The keys come from the group, the values from each setting's parser.
  return Object.fromEntries(entries) as Given<G>;
}

function givenFlag({ flag = '' }: Setting, flags: object): unknown {
  const option = new Option(flag);
  const value: unknown = new Map(Object.entries(flags)).get(option.attributeName());
  // Commander reports true for a `--no-…` flag that was not given.
  return option.negate && value === true ? undefined : value;
}

/** An empty argument most likely comes from an unset shell variable. */
export function parseText(text: string): string {
  if (text !== '') return text;
  throw new InvalidArgumentError('It must not be empty.');
}

export function parseLimit(text: string): number {
  const limit = /^\d+$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= 100) return limit;
  throw new InvalidArgumentError('It must be a whole number from 1 to 100.');
}

/** Parses a flag as a value of this type. */
export function parserOf<T>(type: { parse(text: string): T }): (text: string) => T {
  return (text) => {
    try {
      return type.parse(text);
    } catch (error) {
      throw new InvalidArgumentError(messageOf(error));
    }
  };
}

/** Parses seconds, rounded to milliseconds. */
export const parseSeconds = parserOf(seconds);

export function parseMegabytes(text: string): number {
  const megabytes = /^\d+$/.test(text) ? Number(text) : 0;
  if (megabytes >= 32 && megabytes <= 1_048_576) return megabytes;
  throw new InvalidArgumentError('It must be a whole number of megabytes, from 32 to 1048576, such as 512.');
}

/** For repeatable flags. */
export function collect(text: string, before: readonly string[] | undefined): string[] {
  return [...(before ?? []), parseText(text)];
}
