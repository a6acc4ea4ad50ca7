/** A stand-in for a coding agent, for tests of the runner alone: its prompt is a list of steps, and it does just those. */

import { spawn } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Agent, AgentAdapter, AgentSetup, AgentTurn } from '../../../src/agents/agent-adapter.ts';
import type { TurnResult } from '../../../src/protocol/turn.ts';

export type Step =
  | { readonly say: string }
  /** So many events, as fast as they are taken. */
  | { readonly flood: number }
  /** One event of so many characters. */
  | { readonly huge: number }
  /** Asks, and says what it was answered. */
  | { readonly ask: string }
  /** Until it is stopped. */
  | { readonly wait: true }
  /** For ever, whatever it is told. */
  | { readonly hang: true }
  | { readonly fail: string }
  | { readonly die: string }
  /** To stdout, by all ways that a library has; and what is at stdin is taken, as one would that reads it. */
  | { readonly print: string }
  /** A process that would live on; says its pid. */
  | { readonly start: true }
  /** Says what is at that path of the gateway. */
  | { readonly fetch: string }
  /** Says what it was set up with. */
  | { readonly show: keyof AgentSetup };

export const script = (...steps: readonly Step[]): string => JSON.stringify(steps);

class ScriptedAgent implements Agent {
  readonly name = 'scripted';
  readonly #setup: AgentSetup;
  #items = 0;

  constructor(setup: AgentSetup) {
    this.#setup = setup;
  }

  async prompt(turn: AgentTurn): Promise<TurnResult> {
    const conversation = turn.conversation ?? 'conversation-1';
    await turn.emit({ type: 'agent_session', turn: turn.id, agent: 'scripted', conversation });
    for (const step of JSON.parse(turn.prompt) as Step[]) {
      const end = await this.#take(step, turn);
      if (end) return { conversation, ...end };
      if (turn.signal.aborted) return { status: 'cancelled', conversation };
    }
    return { status: 'completed', conversation, usage: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 } };
  }

  async readTranscript(conversation: string): Promise<string | undefined> {
    const file = join(this.#setup.homeDir, conversation);
    return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
  }

  async writeTranscript(conversation: string, text: string): Promise<boolean> {
    const before = await this.readTranscript(conversation);
    if (before !== undefined && before.length >= text.length) return false;
    writeFileSync(join(this.#setup.homeDir, conversation), text);
    return true;
  }

  async close(): Promise<void> {}

  async #say(turn: AgentTurn, text: string): Promise<void> {
    this.#items += 1;
    const item = `item-${this.#items}`;
    await turn.emit({ type: 'item_completed', turn: turn.id, item, kind: 'message', status: 'completed', text });
  }

  async #take(step: Step, turn: AgentTurn): Promise<TurnResult | undefined> {
    if ('say' in step) await this.#say(turn, step.say);
    if ('flood' in step) for (let n = 0; n < step.flood; n += 1) await this.#say(turn, String(n));
    if ('huge' in step) await this.#say(turn, 'x'.repeat(step.huge));
    if ('ask' in step) await this.#say(turn, JSON.stringify(await turn.permit({ tool: step.ask, summary: step.ask })));
    if ('wait' in step) await new Promise((resolve) => turn.signal.addEventListener('abort', resolve));
    if ('hang' in step) await new Promise(() => {});
    if ('fail' in step) {
      return { status: 'failed', error: { code: 'PROVIDER_FAILED', message: step.fail, advice: 'Try again.' } };
    }
    if ('die' in step) throw new Error(`${step.die} ${this.#setup.model.key}`);
    if ('print' in step) {
      console.log(step.print);
      const { stdin, stdout } = await import('node:process');
      stdout.write(`${step.print}\n`);
      for await (const taken of stdin) await this.#say(turn, String(taken));
    }
    if ('start' in step) {
      const child = spawn('sleep', ['1000'], { stdio: 'ignore' });
      await this.#say(turn, String(child.pid));
    }
    if ('fetch' in step) {
      const { baseUrl, key } = this.#setup.model;
      const answer = await fetch(`${baseUrl}${step.fetch}`, { headers: { 'x-api-key': key }, signal: turn.signal });
      await this.#say(turn, await answer.text());
    }
    if ('show' in step) await this.#say(turn, JSON.stringify(this.#setup[step.show]));
    return undefined;
  }
}

export const scripted: AgentAdapter = {
  name: 'scripted',
  provider: 'anthropic',
  open: async (setup) => new ScriptedAgent(setup),
  eventsOf: (transcript) =>
    transcript
      .split('\n')
      .filter((line) => line !== '')
      .map((text) => ({ type: 'agent_notice', turn: 'trn_0000000000000000', text })),
};
