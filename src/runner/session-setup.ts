/** Prepares an agent's folder and reads its conversations, for the one-shot commands and for `serve`. */

import type { z } from 'zod';
import type { Agent, AgentSetup } from '../agents/agent-adapter.ts';
import { SerialQueue } from '../lib/queues.ts';
import { CellaError } from '../protocol/errors.ts';
import { transcriptPieces } from '../protocol/runner-commands.ts';
import type { ReadTranscript, SetupSession } from '../protocol/runner-methods.ts';
import { checkTranscriptLength } from '../protocol/turn.ts';
import { type AgentLoader, noModelAccess } from './agent-turn.ts';

/** Which agent, and what it works with: no model is called. */
interface AgentFolders extends Omit<AgentSetup, 'model'> {
  readonly agent: string;
}

interface SavedTranscript {
  readonly conversation: string;
  readonly text: string;
}

/** Writes the profile, and the conversation unless the agent has a newer one. */
export async function setupSession(
  agents: AgentLoader,
  folders: AgentFolders,
  transcript: SavedTranscript | undefined,
): Promise<'none' | 'written' | 'kept'> {
  return await withAgent(agents, folders, async (agent) => {
    if (!transcript || transcript.text === '') return 'none';
    return (await agent.writeTranscript(transcript.conversation, transcript.text)) ? 'written' : 'kept';
  });
}

/** The agent's own text of a conversation; undefined if there is none. */
export async function readTranscript(
  agents: AgentLoader,
  folders: AgentFolders,
  conversation: string,
): Promise<string | undefined> {
  return await withAgent(agents, folders, (agent) => agent.readTranscript(conversation));
}

async function withAgent<T>(
  agents: AgentLoader,
  { agent: name, ...setup }: AgentFolders,
  use: (agent: Agent) => Promise<T>,
): Promise<T> {
  const adapter = await agents.load(name);
  const agent = await adapter.open({ ...setup, model: noModelAccess });
  try {
    return await use(agent);
  } finally {
    await agent.close();
  }
}

type SetupParams = z.output<typeof SetupSession.params>;
type TranscriptPart = NonNullable<SetupParams['transcript']>;
type ReadParams = z.output<typeof ReadTranscript.params>;

/** The same over RPC, where a transcript comes and goes in parts. */
export class ServedConversations {
  readonly #agents: AgentLoader;
  readonly #env: Readonly<Record<string, string>>;
  /** One at a time: of two writers, the one with the older text could be the last. */
  readonly #setups = new SerialQueue();
  /** The parts of a transcript that have come so far. */
  #received: { readonly conversation: string; readonly text: string; readonly parts: number } | undefined;
  /** The transcript that is being read; all parts come from the same read. */
  #reading: { readonly conversation: string; readonly pieces: readonly string[] } | undefined;

  constructor(agents: AgentLoader, env: Readonly<Record<string, string>>) {
    this.#agents = agents;
    this.#env = env;
  }

  async setup(params: SetupParams): Promise<z.input<typeof SetupSession.result>> {
    const { transcript: part, profile } = params;
    const transcript = part && this.#collect(part);
    if (part && !transcript) return { transcript: 'partial' };
    const folders = { ...this.#folders(params), profile };
    return { transcript: await this.#setups.run(() => setupSession(this.#agents, folders, transcript)) };
  }

  async read(params: ReadParams): Promise<z.input<typeof ReadTranscript.result>> {
    const { conversation, part } = params;
    if (part === 0 || this.#reading?.conversation !== conversation) {
      const text = await readTranscript(this.#agents, { ...this.#folders(params), profile: {} }, conversation);
      const pieces = text === undefined ? [] : [...transcriptPieces(text)].map((one) => one.text);
      this.#reading = text === undefined ? undefined : { conversation, pieces };
    }
    if (!this.#reading) return { found: false, text: '', parts: 0 };
    const { pieces } = this.#reading;
    if (part + 1 >= pieces.length) this.#reading = undefined;
    return { found: true, text: pieces[part] ?? '', parts: pieces.length };
  }

  /** The whole transcript with its last part; undefined before that. */
  #collect({ conversation, text, part, parts }: TranscriptPart): SavedTranscript | undefined {
    const before = part === 0 ? { conversation, text: '', parts: 0 } : this.#received;
    this.#received = undefined;
    if (before?.conversation !== conversation || before.parts !== part || part >= parts) {
      throw new CellaError('RUNNER_PROTOCOL', `Part ${part} of the transcript came out of order.`);
    }
    const whole = { conversation, text: before.text + text };
    checkTranscriptLength(conversation, whole.text.length);
    if (part + 1 === parts) return whole;
    this.#received = { ...whole, parts: part + 1 };
    return undefined;
  }

  #folders({ agent, cwd, home_dir, program_dir }: SetupParams | ReadParams) {
    return { agent, cwd, homeDir: home_dir, programDir: program_dir, env: this.#env };
  }
}
