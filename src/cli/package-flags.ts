/** Where a command line says that packages come from. */

import { resolve } from 'node:path';
import type { Command } from 'commander';
import { settings } from '../settings/settings-table.ts';
import type { PackageOptions } from './context.ts';
import { UsageError } from './exit.ts';
import { parseText } from './parse-text.ts';
import { addSettings } from './setting-flags.ts';

export interface PackageFlags {
  /** False where `--no-index` was given. */
  readonly index?: string | false;
  readonly extraIndex?: readonly string[];
  readonly wheels?: readonly string[];
}

/** What stands in for a flag that is not given. */
export interface PackageDefaults {
  readonly packages?: PackageOptions | undefined;
}

const GROUP = 'Packages:';

export function addPackageFlags(command: Command): Command {
  const { index, extraIndex, wheels, noIndex } = settings;
  return addSettings(command, [index, extraIndex, wheels, noIndex], { group: GROUP });
}

/** For flags that may be given several times. */
export function collect(text: string, before: readonly string[] | undefined): string[] {
  return [...(before ?? []), parseText(text)];
}

/** Undefined where nothing is said. Flags win over variables. */
export function packageOptionsOf(flags: PackageFlags, defaults: PackageDefaults): PackageOptions | undefined {
  const { packages: other = {} } = defaults;
  const asked = typeof flags.index === 'string' || flags.extraIndex !== undefined;
  const noIndex = flags.index === false || (other.noIndex === true && !asked);
  if (noIndex && flags.extraIndex !== undefined) {
    throw new UsageError('--no-index leaves no place for --extra-index.', 'Leave one of them out.');
  }
  const index = noIndex ? undefined : flags.index || other.index;
  const extraIndexes = noIndex ? [] : [...(flags.extraIndex ?? other.extraIndexes ?? [])];
  for (const url of [...(index === undefined ? [] : [index]), ...extraIndexes]) checkIndex(url);
  const wheelFolders = [...(flags.wheels ?? other.wheelFolders ?? [])].map((folder) => resolve(folder));
  if (!noIndex && index === undefined && extraIndexes.length === 0 && wheelFolders.length === 0) return undefined;
  return { ...(index === undefined ? {} : { index }), extraIndexes, wheelFolders, noIndex };
}

/** It may hold a password, so that it is not repeated. */
function checkIndex(text: string): void {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && ['http:', 'https:'].includes(url.protocol) && url.search === '' && url.hash === '') return;
  throw new UsageError('The package index is no http or https URL.', 'Name it as in https://pypi.org/simple.');
}
