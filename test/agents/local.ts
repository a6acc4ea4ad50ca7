/** The first place: the adapter in this process, with the agent's program as its child. */

import { randomBytes } from 'node:crypto';
import { chmod, mkdir, mkdtemp, readdir, readlink, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Agent, AgentAdapter } from '../../src/agents/agent-adapter.ts';
import { loadAdapter } from '../../src/agents/registry.ts';
import type { AgentEvent } from '../../src/protocol/agent-events.ts';
import { KEY } from '../support/servers/agent-server.ts';
import type { OpenPlace, Place, PlaceOutcome, PlaceTurn } from './place.ts';

export function localPlace(name: string, programDir: string): OpenPlace {
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
      env: { PATH: process.env.PATH ?? '/usr/bin:/bin', LANG: 'C.UTF-8' },
      model: { baseUrl: modelUrl, key: KEY },
      profile: profile({ workspace: cwd, node: process.execPath }),
    };
    return new Local(adapter, folder, () => adapter.open(setup));
  };
}

export function turnId(): string {
  return `trn_${BigInt(`0x${randomBytes(12).toString('hex')}`)
    .toString(36)
    .padStart(16, '0')
    .slice(-16)}`;
}

class Local implements Place {
  readonly workspace: string;
  readonly inside: string;
  readonly takesBypass = true;
  readonly #adapter: AgentAdapter;
  readonly #folder: string;
  readonly #open: () => Promise<Agent>;
  #agent: Promise<Agent> | undefined;

  constructor(adapter: AgentAdapter, folder: string, open: () => Promise<Agent>) {
    this.#adapter = adapter;
    this.#folder = folder;
    this.#open = open;
    this.workspace = join(folder, 'workspace');
    this.inside = this.workspace;
  }

  #opened(): Promise<Agent> {
    this.#agent ??= this.#open();
    return this.#agent;
  }

  async prompt(prompt: string, turn: PlaceTurn = {}): Promise<PlaceOutcome> {
    const agent = await this.#opened();
    const id = turnId();
    const events: AgentEvent[] = [];
    const { mode = 'ask', model, conversation, signal = new AbortController().signal, permit, onEvent } = turn;
    const outcome = await agent.prompt({
      id,
      prompt,
      mode,
      model,
      conversation,
      signal,
      emit: async (event) => {
        events.push(event);
        onEvent?.(event);
      },
      permit: permit ?? ((ask) => Promise.reject(new Error(`nobody expects to be asked for ${ask.summary}`))),
    });
    return { ...outcome, turn: id, events };
  }

  async run(): Promise<never> {
    throw new Error('an adapter by itself has no kernel');
  }

  async transcript(conversation: string): Promise<string | undefined> {
    return await (await this.#opened()).readTranscript(conversation);
  }

  async restart(): Promise<void> {
    await (await this.#opened()).close();
    this.#agent = undefined;
  }

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
    await (await this.#agent)?.close();
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 3 });
  }
}
