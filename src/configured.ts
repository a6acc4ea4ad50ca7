/** What holds where no flag is given: the variables of this process, and beneath them the config file. */

import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type Environment, layBeneath, readEnvironment } from './environment.ts';

export interface ConfigFlags {
  /** `--data` and `--config`. */
  readonly data?: string | undefined;
  readonly config?: string | undefined;
}

/** From here on, the file counts for whoever reads the environment of this process. */
export async function configured(flags: ConfigFlags): Promise<Environment> {
  const variables = await variablesIn(flags);
  if (variables) layBeneath(variables);
  return readEnvironment();
}

/** The same for a guest in this process: the file counts for it alone. */
export async function configuredFor(dataDir: string): Promise<Environment> {
  return readEnvironment(undefined, await variablesIn({ data: dataDir }));
}

async function variablesIn({ data, config }: ConfigFlags): Promise<Readonly<Record<string, string>> | undefined> {
  const before = readEnvironment();
  const named = config ?? before.configFile;
  const dataDir = data === undefined ? before.dataDir : resolve(data);
  const path = named === undefined ? join(dataDir, 'config.yaml') : resolve(named);
  // Most have none, and do not wait for what reads one.
  if (named === undefined && !existsSync(path)) return undefined;
  const { readConfig } = await import('./settings/config-file.ts');
  return await readConfig({ path, named: named !== undefined });
}
