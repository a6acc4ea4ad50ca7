/** All that an executor is made of: its gate, its place, the runner in it, and the connection to that. All of it, or nothing. */

import { setTimeout as delay } from 'node:timers/promises';
import type { Execution } from '../../environments/environment.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Audit, SessionTokens } from '../access/contract.ts';
import type { Tenant, WorkerSettings } from './contract.ts';
import type { Conversations } from './conversations.ts';
import { CUTTING, ExecutorLink, type LinkParts } from './executor-link.ts';
import { Gate, type GateParts } from './gate.ts';
import { Lines } from './lines.ts';
import { hasNetwork, type OpenPlace, type Place } from './place.ts';
import { closed, EXIT_MS, ended } from './worker-ends.ts';

export interface WorkerParts {
  readonly settings: WorkerSettings;
  readonly tokens: SessionTokens;
  readonly open: OpenPlace;
  readonly conversations: Conversations;
  readonly gates: Pick<GateParts, 'folder' | 'models'>;
  readonly mcp: (tenant: Tenant) => GateParts['mcp'];
  readonly keyFor?: LinkParts['keyFor'];
  /** Why the gateway refused the last call of a turn. */
  readonly refusalOf: (turn: string) => CellaError | undefined;
  /** Told of an executor that breaks the rules. */
  readonly refused: Audit['refused'];
  readonly log: (worker: string, line: string) => void;
}

export interface Equipment {
  readonly place: Place;
  readonly gate: Gate;
  readonly execution: Execution;
  readonly link: ExecutorLink;
  readonly words: Lines;
  readonly stack: AsyncDisposableStack;
}

export interface EquipWish {
  readonly id: string;
  readonly tenant: Tenant;
  /** The one that it will most likely run; it is loaded ahead. */
  readonly agent: string;
  readonly parts: WorkerParts;
  /** The turn that runs now, for what is told of its place meanwhile. */
  readonly turn: () => string | undefined;
}

export async function equip({ id, tenant, agent, parts, turn }: EquipWish): Promise<Equipment> {
  await using stack = new AsyncDisposableStack();
  const { settings, tokens, gates, mcp, keyFor, log } = parts;
  const session = tenant.info.id;
  const onError = (error: unknown) => log(id, `unexpected: ${String(error)}`);
  stack.defer(() => tokens.revokeExecutor(id));
  const binding = { session, executor: id };
  const gate = stack.use(
    await Gate.open({
      ...{ ...gates, binding, hasNetwork: hasNetwork(tenant), tokens, mcp: mcp(tenant), onError },
      refused: ({ code, message }) =>
        parts.refused({ kind: 'session_token', userId: tenant.info.ownerId, session, detail: message, code }),
    }),
  );
  const place = await parts.open(tenant, gate.folder, (attempt) => tenant.tellDenied(attempt, turn()));
  stack.use(place.environment);
  const execution = await place.environment.exec([...place.runner, 'serve'], { stdin: 'pipe', cwd: place.cwd });
  const words = new Lines(execution.stderr, (line) => log(id, line));
  const { stdin, stdout } = execution;
  if (!stdin) throw new CellaError('WORKER_FAILED', 'The executor has no input.');
  const link = new ExecutorLink(
    { stdin, stdout },
    { executorId: id, sessionId: session, place, tokens, keyFor, onUnforeseen: onError },
  );
  void link.closed.then(({ code, message }) => {
    const refusal = { userId: tenant.info.ownerId, session, detail: message, code };
    if (CUTTING.has(code)) parts.refused({ kind: 'runner_protocol', ...refusal });
  });
  stack.defer(() => link.cut(closed('it was not needed')));
  const never = execution.exited.then((exit) => Promise.reject(ended(exit, words.last)));
  never.catch(() => {}); // told where it matters
  await Promise.race([greeted(link.hello(agent, settings.startMs), never), never]);
  return { place, gate, execution, link, words, stack: stack.move() };
}

/** How it ended says more than that its connection did, and is told a moment later. */
async function greeted(hello: Promise<void>, never: Promise<never>): Promise<void> {
  try {
    await hello;
  } catch (error) {
    if (error instanceof CellaError && error.code === 'RUNNER_GONE') {
      await Promise.race([never, delay(EXIT_MS, undefined, { ref: false })]);
    }
    throw error;
  }
}
