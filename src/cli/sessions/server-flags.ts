/** The flags that say which server is meant. */

import type { Command } from 'commander';
import { settings } from '../../settings/settings-table.ts';
import { addSetting, addSettings } from '../setting-flags.ts';

export function addServerFlags(command: Command): Command {
  addSettings(command, [settings.url, settings.tokenFile]);
  addSetting(command, settings.dataDir, { about: 'the data folder of a server on this machine' });
  return addSetting(command, settings.config);
}
