/** Removes undefined fields from an object. */

import type { AgentLogEvent } from '../protocol/agent-events.ts';
import type { PermissionInfo } from '../protocol/api/agent-routes.ts';

type Requested = Extract<AgentLogEvent, { type: 'permission_requested' | 'question' }>;
type Resolved = Extract<AgentLogEvent, { type: 'permission_resolved' }>;

export function requestedEvent(info: PermissionInfo): Requested {
  const { id, turn, question, tool, summary } = info;
  if (question && turn !== undefined) return { type: 'question', id, turn, ...question };
  const { execution, item, input, recipe, pattern, exactly, expiresAt } = info;
  const more = { turn, execution, item, input, recipe, pattern, exactly, expiresAt };
  return { type: 'permission_requested', id, tool, summary, ...omitUndefined(more) };
}

/** Undefined as long as nobody has decided. */
export function resolvedEvent({ id, turn, execution, resolution }: PermissionInfo): Resolved | undefined {
  if (!resolution) return undefined;
  const { at, outcome, ...more } = resolution;
  return { type: 'permission_resolved', id, outcome, ...omitUndefined({ turn, execution, ...more }) };
}

/** Of a decision that was made before it was asked for again. */
export function takenText({ id, tool, summary, resolution }: PermissionInfo): string {
  const { outcome = 'cancelled', by = 'somebody' } = resolution ?? {};
  const what = `${tool}: ${summary.slice(0, 200).toWellFormed()}`;
  return `Nobody is asked again: ${id} (${what}) was ${outcome} by ${by} after the server was started anew.`;
}

/** Without what is not there. */
export function omitUndefined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]?: Exclude<T[K], undefined> };
}
