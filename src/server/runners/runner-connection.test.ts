import { setImmediate } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import type { AgentEvent } from '../../protocol/agent-events.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { RunnerTurn } from '../turns/session-turn.ts';
import { ActiveTurn } from './runner-connection.ts';

const turn = 'trn_0000000000000001';
const notice: AgentEvent = { type: 'agent_notice', turn, text: 'hello' };
const revoked = () => Promise.reject(new CellaError('UNAUTHENTICATED', 'This session token was revoked.'));

/** Collects what nobody has caught: in a server it would be the end of all sessions. */
function uncaught(): unknown[] {
  const found: unknown[] = [];
  const note = (error: unknown) => found.push(error);
  process.on('unhandledRejection', note);
  onTestFinished(() => void process.off('unhandledRejection', note));
  return found;
}

function assignmentThat(emit: RunnerTurn['emit']): ActiveTurn {
  return new ActiveTurn({ id: turn, emit } as RunnerTurn, 'cst_one');
}

test('a token that is revoked while an earlier message is written fails only that message', async () => {
  const found = uncaught();
  const writing = Promise.withResolvers<void>();
  const assignment = assignmentThat(() => writing.promise);
  const first = assignment.addEvent(1, notice, Promise.resolve());
  const second = assignment.addEvent(2, notice, revoked());
  await setImmediate();
  writing.resolve();
  await first;
  await expect(second).rejects.toMatchObject({ code: 'UNAUTHENTICATED' });
  expect(found).toEqual([]);
});

test('a message out of order with an invalid token is refused for its order', async () => {
  const found = uncaught();
  const assignment = assignmentThat(async () => {});
  await expect(assignment.addEvent(7, notice, revoked())).rejects.toMatchObject({ code: 'RUNNER_PROTOCOL' });
  await setImmediate();
  expect(found).toEqual([]);
});
