/** What is written down of a session: whose it is, and how its kernel is made. */

import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { Share } from '../../protocol/access-models.ts';
import { CellaError } from '../../protocol/errors.ts';
import { Labels, NewSession, SessionChange, SessionId, SessionSettings } from '../../protocol/session-info.ts';
import { FolderId } from '../../sandbox/spec.ts';
import { checkOptions, parseOptions } from '../../session/session-options.ts';
import { newSessionId } from './ids.ts';

/** As the caller wrote them: a default that changes holds for what nobody has chosen. */
const settings = z.custom<SessionSettings>((value) => SessionSettings.safeParse(value).success, 'must be settings');

export const Definition = z.object({
  id: SessionId,
  ownerId: z.string(),
  agentKey: z.string(),
  name: z.string().optional(),
  labels: Labels,
  shares: z.array(Share),
  settings,
  /** Which folders of the machine its settings name: what has their paths later may be others. */
  folderIds: z.record(z.string(), FolderId).optional(),
  /** `making` and `deleting` are undone and finished at the next start. */
  life: z.enum(['making', 'present', 'deleting']),
  forkOf: SessionId.optional(),
  /** Its code came from somebody else, and its owner has not confirmed it. */
  unconfirmed: z.literal(true).optional(),
  createdAt: z.number(),
  updatedAt: z.number(),
});
export type Definition = z.infer<typeof Definition>;

export function newDefinition(ownerId: string, wanted: unknown): Definition {
  const { agentKey, name, labels = {}, shares = [] } = parseOptions(NewSession, wanted);
  const { agentKey: _key, name: _name, labels: _labels, shares: _shares, ...given } = asRecord(wanted);
  checkOptions({ ...given, agentKey });
  const now = Date.now();
  const facts = { id: newSessionId(), ownerId, agentKey, labels, shares, settings: given };
  return { ...facts, ...(name === undefined ? {} : { name }), life: 'present', createdAt: now, updatedAt: now };
}

/** Where a key is there already: what the second caller asks for must be what the first got. */
export function checkSame(there: Definition, wanted: Definition, written: NewSession): void {
  const problems: string[] = [];
  const [before, after] = [SessionSettings.parse(there.settings), SessionSettings.parse(wanted.settings)];
  for (const [option, value] of Object.entries(after)) {
    if (!isDeepStrictEqual(value, new Map(Object.entries(before)).get(option))) problems.push(option);
  }
  for (const option of ['name', 'labels', 'shares'] as const) {
    if (written[option] !== undefined && !isDeepStrictEqual(there[option], wanted[option])) problems.push(option);
  }
  if (problems.length === 0) return;
  const message = `There is a session for the key ${JSON.stringify(there.agentKey)} with other options: ${problems.join(', ')}.`;
  throw new CellaError('SESSION_CONFLICT', message, { details: { session: there.id, options: problems } });
}

export function changed(there: Definition, change: unknown): Definition {
  const { name, labels = there.labels, shares = there.shares } = parseOptions(SessionChange, change);
  const { name: _name, labels: _labels, shares: _shares, ...given } = asRecord(change);
  const settings = { ...there.settings, ...given };
  checkOptions({ ...settings, agentKey: there.agentKey });
  const { name: before, ...rest } = there;
  const called = name === undefined ? before : (name ?? undefined);
  return {
    ...rest,
    ...(called === undefined ? {} : { name: called }),
    labels,
    shares,
    settings,
    updatedAt: Date.now(),
  };
}

const AnyRecord = z.record(z.string(), z.unknown());

/** After the schema has said that it is one. */
function asRecord(value: unknown): Record<string, unknown> {
  return AnyRecord.parse(value);
}
