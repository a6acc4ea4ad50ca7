/** Conversations as the agent keeps them, for a daemon that has just had a turn: no other process is started to read them. */

import type { z } from 'zod';
import { transcriptPieces } from '../../protocol/runner-commands.ts';
import type { ReadTranscript } from '../../protocol/runner-methods.ts';
import { nowhere } from '../access.ts';
import type { AgentSource } from '../agents.ts';

type Wanted = z.output<typeof ReadTranscript.params>;
type Part = z.input<typeof ReadTranscript.result>;

export class Transcripts {
  readonly #agents: AgentSource;
  readonly #env: Readonly<Record<string, string>>;
  /** The one that is being read: all of its parts are of one moment. */
  #open: { readonly conversation: string; readonly pieces: readonly string[] } | undefined;

  constructor(agents: AgentSource, env: Readonly<Record<string, string>>) {
    this.#agents = agents;
    this.#env = env;
  }

  async part(wanted: Wanted): Promise<Part> {
    const { conversation, part } = wanted;
    if (part === 0 || this.#open?.conversation !== conversation) this.#open = await this.#read(wanted);
    if (!this.#open) return { found: false, text: '', parts: 0 };
    const { pieces } = this.#open;
    if (part + 1 >= pieces.length) this.#open = undefined;
    return { found: true, text: pieces[part] ?? '', parts: pieces.length };
  }

  async #read({ agentic_tool, cwd, home_dir: homeDir, program_dir: programDir, conversation }: Wanted) {
    const adapter = await this.#agents.load(agentic_tool);
    const agent = await adapter.open({ cwd, homeDir, programDir, env: this.#env, model: nowhere, profile: {} });
    try {
      const text = await agent.readTranscript(conversation);
      return text === undefined
        ? undefined
        : { conversation, pieces: [...transcriptPieces(text)].map((one) => one.text) };
    } finally {
      await agent.close();
    }
  }
}
