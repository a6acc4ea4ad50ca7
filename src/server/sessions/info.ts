/** What is told of a session to whoever asks. */

import { type SessionInfo, SessionSettings } from '../../protocol/session-info.ts';
import type { Definition } from './definition.ts';

/** By what was written: a session is told of with every request, and its settings seldom change. */
const checked = new WeakMap<Definition['settings'], SessionInfo['settings']>();

/** With the defaults for what nobody has chosen. */
export function settingsOf({ settings }: Pick<Definition, 'settings'>): SessionInfo['settings'] {
  const known = checked.get(settings) ?? SessionSettings.parse(settings);
  checked.set(settings, known);
  return known;
}

/** With what is known of it while no kernel was opened for it. */
export function infoOf(
  { life, ...definition }: Definition,
  { state, queued }: Pick<SessionInfo, 'state' | 'queued'> = { state: 'hibernated', queued: 0 },
): SessionInfo {
  return { ...definition, settings: settingsOf(definition), state, queued };
}
