/** The first place: turns in this process, with the agent's program as its child. */

import { randomBytes } from 'node:crypto';
import { chmod, mkdir, mkdtemp, readdir, readlink, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AgentAdapter, AgentSetup } from '../../src/agents/agent-adapter.ts';
import { loadAdapter } from '../../src/agents/registry.ts';
import type { AgentEvent } from '../../src/protocol/agent-events.ts';
import { runAgentTurn } from '../../src/runner/agent-turn.ts';
import { KEY } from '../support/servers/agent-server.ts';
import type { AgentEnvironment, EnvironmentTurn, OpenAgentEnvironment, TurnOutcome } from './agent-environment.ts';

/** `more`: variables of the environment. */
export function localEnvironment(
  name: string,
  programDir: string,
  more: Readonly<Record<string, string>> = {},
): OpenAgentEnvironment {
  return async ({ modelUrl, profile }) => {
    const folder = await realpath(await mkdtemp(join(tmpdir(), 'cella-agent-')));
    const [cwd, homeDir] = [join(folder, 'workspace'), join(folder, 'home')];
    await Promise.all([mkdir(cwd), mkdir(homeDir)]);
    await chmod(folder, 0o700);
    const adapter = await loadAdapter(name);
    const setup = {
      cwd,
      homeDir,
      programDir,
      env: { PATH: process.env.PATH ?? '/usr/bin:/bin', LANG: 'C.UTF-8', ...more },
      model: { baseUrl: modelUrl, key: KEY },
      profile: profile({ workspace: cwd, node: process.execPath }),
    };
    return new Local(adapter, folder, setup);
  };
}

export function turnId(): string {
  return `trn_${BigInt(`0x${randomBytes(12).toString('hex')}`)
    .toString(36)
    .padStart(16, '0')
    .slice(-16)}`;
}

class Local implements AgentEnvironment {
  readonly workspace: string;
  readonly inside: string;
  readonly takesBypass = true;
  readonly #adapter: AgentAdapter;
  readonly #folder: string;
  readonly #setup: AgentSetup;

  constructor(adapter: AgentAdapter, folder: string, setup: AgentSetup) {
    this.#adapter = adapter;
    this.#folder = folder;
    this.#setup = setup;
    this.workspace = join(folder, 'workspace');
    this.inside = this.workspace;
  }

  async prompt(prompt: string, turn: EnvironmentTurn = {}): Promise<TurnOutcome> {
    const id = turnId();
    const events: AgentEvent[] = [];
    const { mode = 'ask', model, conversation, signal = new AbortController().signal, permit, onEvent } = turn;
    const emit = async (event: AgentEvent) => {
      events.push(event);
      onEvent?.(event);
    };
    const outcome = await runAgentTurn({
      load: async () => this.#adapter,
      setup: async () => this.#setup,
      turn: { id, prompt, mode, model, conversation, emit },
      permit: permit ?? ((ask) => Promise.reject(new Error(`nobody expects to be asked for ${ask.summary}`))),
      stop: signal,
      onAbandoned: () => {},
    });
    return { ...outcome, turn: id, events };
  }

  async run(): Promise<never> {
    throw new Error('an adapter by itself has no kernel');
  }

  async transcript(conversation: string): Promise<string | undefined> {
    const agent = await this.#adapter.open(this.#setup);
    return await agent.readTranscript(conversation);
  }

  async restart(): Promise<void> {}

  async killAgent(): Promise<void> {
    const killed = await Promise.all(
      (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map((pid) => this.#killIfOurs(Number(pid))),
    );
    if (!killed.includes(true)) throw new Error(`no program of ${this.#adapter.name} runs in ${this.#folder}`);
  }

  async #killIfOurs(pid: number): Promise<boolean> {
    const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => ''); // it has ended, or is another's
    if (cwd !== this.workspace) return false;
    process.kill(pid, 'SIGKILL');
    return true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 3 });
  }
}
