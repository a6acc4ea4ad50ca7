/** Runners as child processes, made as the build makes them, with a server's side that a test can look at. */

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { z } from 'zod';
import { bundleRunner } from '../../../scripts/bundling/runner.mjs';
import type { AgentEvent } from '../../../src/protocol/agent-events.ts';
import { portOfStreams, RpcPeer } from '../../../src/protocol/rpc-peer.ts';
import {
  ExecutePrompt,
  GetExecutionContext,
  Hello,
  PROTOCOL_VERSION,
  ReportCompletion,
  ReportMessage,
  ReportProgress,
  type TurnReport,
} from '../../../src/protocol/runner-methods.ts';
import { MessageOrder } from '../../../src/server/runners/runner-connection.ts';
import { type Step, script } from './scripted-agent.ts';

export const sessionId = 'ses_0123456789abcdef';
export const turnId = 'trn_0123456789abcdef';
export const sessionToken = 'cst_test_token-of-the-session';

const source = (path: string) => new URL(`../../../${path}`, import.meta.url).pathname;

export interface RunnerFiles {
  /** With the agents that there are. */
  readonly real: string;
  /** With the scripted stand-in. */
  readonly scripted: string;
}

export async function bundleRunners(folder: string): Promise<RunnerFiles> {
  const files = { real: join(folder, 'cella-runner.mjs'), scripted: join(folder, 'scripted-runner.mjs') };
  await bundleRunner(source('src/runner/cella-runner.ts'), files.real);
  await bundleRunner(source('test/support/agents/scripted-runner.ts'), files.scripted);
  return files;
}

export function startRunner(file: string, command: string): ChildProcessWithoutNullStreams {
  const child = spawn(process.execPath, [file, command], { env: { PATH: '/usr/bin:/bin' } });
  child.stdin.on('error', () => {}); // it may end before all is written
  return child;
}

/** A command from its input to its end: the lines that it wrote, parsed. */
export async function runCommand(file: string, command: string, input: string | Uint8Array) {
  const child = startRunner(file, command);
  child.stdin.end(input);
  const [stdout, stderr, [code, signal]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  const lines = stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
  return { lines, last: lines.at(-1), stderr, code, signal };
}

type Prompt = z.input<typeof ExecutePrompt.params>;

/** The server's side of one runner that serves. */
export class RunnerTestServer implements AsyncDisposable {
  readonly child: ChildProcessWithoutNullStreams;
  readonly peer: RpcPeer;
  readonly events: AgentEvent[] = [];
  readonly phases: string[] = [];
  readonly completions: TurnReport[] = [];
  readonly exited: Promise<unknown[]>;
  #order = new MessageOrder();
  readonly #watchers = new Set<() => void>();
  stderr = '';

  constructor(file: string, context: Partial<z.input<typeof GetExecutionContext.result>> = {}) {
    this.child = startRunner(file, 'serve');
    this.child.stderr.setEncoding('utf8').on('data', (piece: string) => {
      this.stderr += piece;
    });
    this.exited = once(this.child, 'close');
    this.peer = new RpcPeer(portOfStreams(this.child.stdout, this.child.stdin));
    this.peer
      .handle(GetExecutionContext, () => ({
        ...{ home_dir: '/tmp', program_dir: '/tmp', env: { GIVEN: 'yes' }, profile: {} },
        ...context,
      }))
      .handle(ReportMessage, ({ sequence, event }) => {
        this.#order.take(sequence);
        this.events.push(event);
        for (const look of this.#watchers) look();
        return {};
      })
      .handle(ReportCompletion, ({ session_id, session_token, turn_id, ...outcome }) => {
        this.completions.push(outcome);
        return {};
      })
      .on(ReportProgress, ({ phase }) => void this.phases.push(phase));
  }

  async hello(more: Partial<z.input<typeof Hello.params>> = {}) {
    this.peer.start();
    const params = { protocol_version: PROTOCOL_VERSION, session_id: sessionId, runner_id: 'rnr_1' };
    return await this.peer.call(Hello, { ...params, key_mode: 'gateway', gateway_socket: '/nowhere', ...more });
  }

  prompt(steps: readonly Step[], more: Partial<Prompt> = {}): Promise<TurnReport> {
    if (this.completions.length > 0) this.#order = new MessageOrder();
    return this.peer.call(ExecutePrompt, {
      session_token: sessionToken,
      session_id: sessionId,
      turn_id: turnId,
      agent: 'scripted',
      prompt: script(...steps),
      cwd: '/tmp',
      mode: 'ask',
      ...more,
    });
  }

  /** What the agent has said, in order. */
  get said(): string[] {
    return this.events.flatMap((event) => (event.type === 'item_completed' ? [event.text ?? ''] : []));
  }

  /** Resolves once it has said so much. */
  async saying(count: number): Promise<string> {
    while (this.said.length < count) {
      const more = Promise.withResolvers<void>();
      this.#watchers.add(more.resolve);
      await more.promise;
      this.#watchers.delete(more.resolve);
    }
    return this.said[count - 1] ?? '';
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.child.kill('SIGKILL');
    await this.exited;
  }
}
