/** `cella agent`: one prompt to a coding agent in a session of a server. */

import type { Client, ClientSession } from '../../client/index.ts';
import type { PromptOptions } from '../../session/api.ts';
import { findSession } from '../backend/find-server.ts';
import { Signals } from '../command-lifecycle.ts';
import type { CommandContext } from '../context.ts';
import { openLineInput } from '../terminal/line-editor.ts';
import { approvalPrompter } from '../terminal/prompts.ts';
import { agentIn } from './agent-in.ts';
import { AgentTurn, type AgentTurnContext } from './agent-turn.ts';

export interface AgentRequest {
  readonly prompt: string;
  /** By its id or agent key; without one, that of the agent key, made where there is none. */
  readonly session: string | undefined;
  readonly agentKey: string;
  readonly options: PromptOptions;
  readonly json: boolean;
}

export async function agent(client: Client, request: AgentRequest, context: CommandContext): Promise<number> {
  const { terminal } = context;
  const leaving = new AbortController();
  let turn: AgentTurn | undefined;
  using signals = new Signals(context.signals, () => turn?.stop() ?? false);
  void signals.ended.then(() => leaving.abort());
  const lines = openLineInput(terminal, signals.interrupt);
  try {
    // What the agent's code calls may ask, too.
    const approve = terminal.interactive ? { approve: approvalPrompter({ terminal, lines: () => lines }) } : {};
    const session = await sessionFor(client, request, approve);
    const desk: AgentTurnContext = {
      session: agentIn(session),
      terminal,
      lines,
      json: request.json,
      leaving: leaving.signal,
    };
    turn = new AgentTurn(desk);
    return await Promise.race([turn.run(request.prompt, request.options), signals.ended]);
  } finally {
    if (signals.exitCode !== undefined) terminal.skipFlush();
    lines.close();
  }
}

async function sessionFor(
  client: Client,
  { session, agentKey }: AgentRequest,
  use: Parameters<Client['session']>[1],
): Promise<ClientSession> {
  if (session !== undefined) return await client.session((await findSession(client, session)).id, use);
  const { sessions } = await client.sessions.list({ agentKey, owner: client.me.userId, limit: 1 });
  const id = sessions[0]?.id ?? (await client.sessions.create({ agentKey })).id;
  return await client.session(id, use);
}
