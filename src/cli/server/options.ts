/** What a server can be told of a session by a command line, and what it has already. */

import type { SessionInfo, SessionWish } from '../../client/index.ts';
import { resolveExecutor } from '../../protocol/enums.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { NamespacesOptions, OpenOptions } from '../context.ts';
import { UsageError } from '../exit.ts';
import { toWord } from '../texts.ts';
import type { TypedFlag } from '../typed-flags.ts';
import type { Reached } from './reach.ts';

/** These say how this machine runs code: a server was told when it was started. */
const ownMatter: readonly TypedFlag[] = [
  '--python',
  '--tools',
  '--engine',
  '--index',
  '--no-index',
  '--extra-index',
  '--wheels',
];

export function checkTellable({ typed = [] }: NamespacesOptions, { where, here }: Reached): void {
  const mute = typed.find((flag) => ownMatter.includes(flag));
  if (mute !== undefined) {
    throw new UsageError(
      `${mute} cannot be told to the server ${here ? 'on' : 'at'} ${where}.`,
      'Leave it out: `cella serve` takes it, for all sessions of a server.',
    );
  }
  if (here || !typed.includes('--cwd')) return;
  throw new UsageError(
    `--cwd names a folder of this machine, and the code runs at ${where}.`,
    'Leave it out: the code works in the workspace of its session.',
  );
}

/** For a session that is made: with what variables say, too. */
export function wishOf(options: Omit<OpenOptions, 'approve'>): SessionWish {
  const { cwd, executor, image, sandbox, limits, undo, allowRuntimeDeps } = options;
  return {
    ...(cwd === undefined ? {} : { cwd }),
    ...(executor === undefined ? {} : { executor }),
    ...(image === undefined ? {} : { image }),
    ...(sandbox === 'on' ? {} : { sandbox }),
    ...(limits === undefined ? {} : { limits }),
    ...(undo === undefined ? {} : { undo }),
    ...(allowRuntimeDeps === undefined ? {} : { allowRuntimeDeps }),
  };
}

/** One that is there is used as it is, unless something else was typed. */
export function checkAgrees(
  { typed = [], ...options }: Omit<OpenOptions, 'approve'>,
  { id, agentKey, settings }: SessionInfo,
): void {
  const { cwd, executor = 'auto', image, sandbox, limits } = options;
  const has: Partial<Record<TypedFlag, boolean>> = {
    '--cwd': settings.cwd === cwd,
    '--executor': resolveExecutor(settings.executor) === resolveExecutor(executor),
    '--image': settings.image === image,
    '--sandbox': (settings.sandbox === 'off') === (sandbox === 'off'),
    '--network': networkOf(settings.sandbox) === networkOf(sandbox),
    '--memory': settings.limits.memoryMb === limits?.memoryMb,
    '--no-runtime-deps': settings.allowRuntimeDeps === false,
  };
  const others = typed.filter((flag) => has[flag] === false);
  if (others.length === 0) return;
  const message = `There is a session of ${JSON.stringify(agentKey)} that was made without ${others.join(' and ')}.`;
  const advice =
    `Leave ${others.length === 1 ? 'it' : 'them'} out to use it as it is, name another --agent, ` +
    `or delete it with all it has: cella sessions rm ${toWord(agentKey)}`;
  throw new CellaError('SESSION_CONFLICT', message, { details: { session: id, options: others }, advice });
}

/** In words that are the same for what is the same. */
function networkOf(sandbox: OpenOptions['sandbox']): string {
  if (sandbox === 'off') return 'host';
  if (sandbox === 'on') return 'none';
  const { network } = sandbox;
  return typeof network === 'string' ? network : network.allow.toSorted().join();
}
