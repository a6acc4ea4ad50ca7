/** Writes the profile and the conversation for an agent before its turn, and saves the conversation after it. */

import type { FileWritten } from '../../environments/environment.ts';
import { ExecutionEnvironment } from '../../environments/execution-environment.ts';
import { fingerprint } from '../sessions/idempotency.ts';
import type { RunnerTurn } from '../turns/session-turn.ts';
import type { RunnerEnvironment } from './runner-environment.ts';

const MOST_TOLD = 5;

export class ConversationSync {
  /** A digest of what was last written to an environment, to skip the same again. */
  readonly #laid = new WeakMap<RunnerEnvironment, string>();

  /** Writes the profile, and the conversation unless the agent has a newer one. Returns the conversation to continue. */
  async prepare(place: RunnerEnvironment, task: RunnerTurn): Promise<string | undefined> {
    const { profile } = task;
    const environment = await environmentOf(place, task);
    const kept = task.conversation === undefined ? undefined : await task.readTranscript(task.conversation);
    const conversation = await existing(environment, task.conversation, kept);
    const laid = fingerprint(task.agent, profile);
    const known = this.#laid.get(place);
    const empty = Object.keys(profile).length === 0 && conversation === undefined;
    if (known === laid || (known === undefined && empty)) return conversation;
    const { files } = await environment.prepareSession(
      kept && conversation !== undefined ? { transcript: { conversation, text: kept.text } } : {},
    );
    this.#laid.set(place, laid);
    await tellMissing(files, task);
    return conversation;
  }

  /** Saves the conversation as the agent has it now. */
  async save(
    place: RunnerEnvironment,
    task: RunnerTurn,
    conversation: string,
    read: () => Promise<string | undefined>,
  ): Promise<void> {
    const text = await read();
    if (text === undefined) return;
    await task.saveTranscript(conversation, text);
    // The agent has it from now on.
    if (!this.#laid.has(place)) this.#laid.set(place, fingerprint(task.agent, task.profile));
  }
}

/** Tells the user which files are missing; the agent works without them. */
async function tellMissing(files: readonly FileWritten[], task: RunnerTurn): Promise<void> {
  const reasons = files.flatMap((file) => (file.ok ? [] : [file.error.message]));
  if (reasons.length === 0) return;
  const count = reasons.length === 1 ? 'One file' : `${reasons.length} files`;
  const text = `${count} of the profile could not be put into the workspace: ${reasons.slice(0, MOST_TOLD).join(' ')}`;
  await task.emit({ type: 'agent_notice', turn: task.id, text: text.toWellFormed() });
}

/** A killed agent may have named a conversation without writing it. */
async function existing(environment: ExecutionEnvironment, conversation: string | undefined, kept: object | undefined) {
  if (conversation === undefined || kept) return conversation;
  return (await environment.readSessionTranscript(conversation)) === undefined ? undefined : conversation;
}

/** Uses the runner's environment; only the runner closes it. */
async function environmentOf(
  { environment, runner, programDir }: RunnerEnvironment,
  task: RunnerTurn,
): Promise<ExecutionEnvironment> {
  return await ExecutionEnvironment.create({
    sessionId: task.session.id,
    architecture: task.agent,
    agentProfile: task.profile,
    environmentOptions: {
      open: async () => environment,
      runner: { argv: runner, programDir: await programDir(task.agent) },
    },
  });
}
