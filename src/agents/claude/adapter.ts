/** The adapter for Claude, with Anthropic's SDK and program. */

import { CellaError } from '../../protocol/errors.ts';
import type { TurnResult } from '../../protocol/turn.ts';
import type { Agent, AgentAdapter, AgentSetup, AgentTurn } from '../agent-adapter.ts';
import { claudeFailure } from './block-events.ts';
import { findFile, readConversation, writeConversation } from './conversation-files.ts';
import { runClaudeTurn } from './run-turn.ts';
import { loadSdk } from './sdk-options.ts';
import { eventsOf } from './transcript-events.ts';

class Claude implements Agent {
  readonly name = 'claude';
  readonly #setup: AgentSetup;
  readonly #closing = new AbortController();
  #running: Promise<unknown> | undefined;

  constructor(setup: AgentSetup) {
    this.#setup = setup;
  }

  async prompt(turn: AgentTurn): Promise<TurnResult> {
    if (this.#running) throw new CellaError('AGENT_BUSY', 'Claude is already running a turn.');
    const signal = AbortSignal.any([turn.signal, this.#closing.signal]);
    const running = this.#prompt({
      ...turn,
      signal,
      emit: (event) => turn.emit(event),
      permit: (request, own) => turn.permit(request, own),
    });
    this.#running = running;
    try {
      return await running;
    } finally {
      this.#running = undefined;
    }
  }

  async #prompt(turn: AgentTurn): Promise<TurnResult> {
    const missing = await this.#missing(turn.conversation);
    if (!missing) return await runClaudeTurn(await loadSdk(this.#setup.programDir), this.#setup, turn);
    const error = claudeFailure(missing);
    await turn.emit({ type: 'agent_error', turn: turn.id, error });
    return { status: 'failed', error };
  }

  async #missing(conversation: string | undefined): Promise<CellaError | undefined> {
    if (conversation === undefined) return undefined;
    try {
      if ((await findFile(this.#setup, conversation)) !== undefined) return undefined;
    } catch (error) {
      if (error instanceof CellaError) return error;
      throw error;
    }
    return new CellaError('CONVERSATION_NOT_FOUND', `There is no conversation ${conversation} to continue.`);
  }

  async readTranscript(conversation: string): Promise<string | undefined> {
    return await readConversation(this.#setup, conversation);
  }

  async writeTranscript(conversation: string, text: string): Promise<boolean> {
    return await writeConversation(this.#setup, conversation, text);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running?.catch(() => {}); // the caller of the prompt got the error
  }
}

export const claude: AgentAdapter = {
  name: 'claude',
  provider: 'anthropic',
  // The SDK is loaded with the first prompt; reading a transcript does not need it.
  open: async (setup) => new Claude(setup),
  eventsOf,
};
