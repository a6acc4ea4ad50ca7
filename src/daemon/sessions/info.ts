/** What is told of a session to whoever asks. */

import type { SessionInfo } from '../../protocol/http/sessions.ts';
import { SessionSettings } from '../../protocol/session-settings.ts';
import type { Definition } from './definition.ts';

/** With what is known of it while no kernel was opened for it. */
export function infoOf(
  { life, ...definition }: Definition,
  { state, queued }: Pick<SessionInfo, 'state' | 'queued'> = { state: 'hibernated', queued: 0 },
): SessionInfo {
  return { ...definition, settings: SessionSettings.parse(definition.settings), state, queued };
}
