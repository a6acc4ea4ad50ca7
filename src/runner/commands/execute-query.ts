/** `execute-query`: one turn, its events as lines, its permissions asked and answered over the same streams. */

import type { z } from 'zod';
import type { AgentAdapter, AgentSetup } from '../../agents/contract.ts';
import { type QueryLine, QueryRequest } from '../../protocol/runner-commands.ts';
import { throughGateway, withSessionServer } from '../access.ts';
import { openForwarder } from '../forwarder.ts';
import { runTurn } from '../turn.ts';
import { ownVariables } from '../variables.ts';
import { Answers } from './answers.ts';
import type { Command, CommandParts } from './command.ts';
import { firstLine } from './io.ts';

type Query = z.output<typeof QueryRequest>;
/** What of an agent's set-up depends on how models are reached. */
type Reach = (adapter: AgentAdapter) => Pick<AgentSetup, 'model' | 'profile'>;

export const executeQuery: Command = async (parts) => {
  const query = await firstLine(parts.lines, QueryRequest);
  const { access, profile } = query;
  if ('baseUrl' in access) return await answer(parts, query, () => ({ model: access, profile }));
  const { key, sessionMcp } = access;
  await using gateway = await openForwarder(access.gatewaySocket);
  const whole = sessionMcp === undefined ? profile : withSessionServer(profile, sessionMcp, gateway.url, key);
  const reach: Reach = (adapter) => ({ model: throughGateway(gateway.url, adapter, key), profile: whole });
  return await answer(parts, query, reach);
};

async function answer({ lines, output, agents, stop }: CommandParts, query: Query, reach: Reach): Promise<number> {
  const { agent, cwd, homeDir, programDir, env, turn: id, timeoutMs, prompt, mode, model, tools, conversation } = query;
  const stopping = new AbortController();
  const answers = new Answers(output);
  let broken: { readonly error: unknown } | undefined;
  answers
    .read(lines, () => stopping.abort())
    .catch((error: unknown) => {
      // What is no answer ends the query: whoever writes it does not mean what is done here.
      broken = { error };
      stopping.abort();
    });
  let messageCount = 0;
  const end = await runTurn({
    load: () => agents.load(agent),
    setup: async (adapter) => ({ cwd, homeDir, programDir, env: { ...ownVariables(), ...env }, ...reach(adapter) }),
    turn: {
      ...{ id, prompt, mode, model, tools, conversation },
      emit: async (event) => {
        messageCount += 1;
        await output.write({ type: 'event', sequence: messageCount, event } satisfies QueryLine);
      },
      permit: (ask, signal) => answers.ask(ask, signal),
    },
    timeoutMs,
    stop: AbortSignal.any([stop, stopping.signal]),
  });
  if (broken) throw broken.error;
  await output.write({ type: 'ended', ...end, messageCount } satisfies QueryLine);
  return end.status === 'completed' || end.status === 'cancelled' ? 0 : 1;
}
