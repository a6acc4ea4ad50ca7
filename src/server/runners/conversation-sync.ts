/** Writes the agent's profile and conversation before a turn, and saves the conversation after it. */

import type { FileWritten } from '../../environments/environment.ts';
import { writeMissingFiles } from '../../environments/execution-environment.ts';
import { fingerprint } from '../sessions/idempotency.ts';
import type { RunnerTurn } from '../turns/session-turn.ts';
import type { RunnerConnection } from './runner-connection.ts';
import type { RunnerEnvironment, RunnerSettings } from './runner-environment.ts';

/** How many unwritable files a notice names. */
const MOST_NAMED = 5;

/** One per runner. */
export class ConversationSync {
  readonly #environment: RunnerEnvironment;
  readonly #connection: RunnerConnection;
  readonly #settings: RunnerSettings;
  /** A digest of what was last written, to skip identical content. */
  #prepared: string | undefined;

  constructor(environment: RunnerEnvironment, connection: RunnerConnection, settings: RunnerSettings) {
    this.#environment = environment;
    this.#connection = connection;
    this.#settings = settings;
  }

  /** Writes the profile, and the conversation unless the agent has a newer one. Returns the conversation to continue. */
  async prepare(turn: RunnerTurn): Promise<string | undefined> {
    const { agent, profile, signal } = turn;
    const stored = turn.conversation === undefined ? undefined : await turn.readTranscript(turn.conversation);
    const conversation = stored ? turn.conversation : await this.#existing(turn);
    const wanted = fingerprint(agent, profile);
    const isEmpty = Object.keys(profile).length === 0 && conversation === undefined;
    if (this.#prepared === wanted || (this.#prepared === undefined && isEmpty)) return conversation;
    const files = await writeMissingFiles(this.#environment.environment, profile);
    const transcript = stored && conversation !== undefined ? { ...stored, conversation } : undefined;
    await this.#connection.setupSession(turn, transcript, { timeoutMs: this.#settings.startMs, signal });
    this.#prepared = wanted;
    await tellMissing(files, turn);
    return conversation;
  }

  /** Saves the conversation as the agent has it now. */
  async save(turn: RunnerTurn, conversation: string): Promise<void> {
    // Also of a turn that was stopped.
    const text = await this.#connection.readTranscript(turn, conversation, { timeoutMs: this.#settings.pingMs });
    if (text === undefined) return;
    await turn.saveTranscript(conversation, text);
    // The agent has it from now on.
    this.#prepared ??= fingerprint(turn.agent, turn.profile);
  }

  /** A killed agent may have named a conversation without writing it. */
  async #existing(turn: RunnerTurn): Promise<string | undefined> {
    const { conversation, signal } = turn;
    if (conversation === undefined) return undefined;
    const options = { timeoutMs: this.#settings.pingMs, signal };
    const text = await this.#connection.readTranscript(turn, conversation, options);
    return text === undefined ? undefined : conversation;
  }
}

/** Tells the user which files are missing; the agent works without them. */
async function tellMissing(files: readonly FileWritten[], turn: RunnerTurn): Promise<void> {
  const reasons = files.flatMap((file) => (file.ok ? [] : [file.error.message]));
  if (reasons.length === 0) return;
  const count = reasons.length === 1 ? 'One file' : `${reasons.length} files`;
  const text = `${count} of the profile could not be written to the workspace: ${reasons.slice(0, MOST_NAMED).join(' ')}`;
  await turn.emit({ type: 'agent_notice', turn: turn.id, text: text.toWellFormed() });
}
