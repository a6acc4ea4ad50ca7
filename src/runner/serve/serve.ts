/** `serve`: the runner as a long-lived executor. One daemon, one session, one task at a time, over stdin and stdout. */

import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import { describeFirstIssue, RpcPeer } from '../../protocol/rpc-peer.ts';
import { portOfStreams } from '../../protocol/rpc-streams.ts';
import {
  ExecutePrompt,
  Hello,
  PermissionResolved,
  Ping,
  PROTOCOL_VERSION,
  ReadTranscript,
  Shutdown,
  SpawnTerminal,
  StopTask,
  TerminalInput,
  TerminateTerminal,
} from '../../protocol/runner-methods.ts';
import type { AgentSource } from '../agents.ts';
import { endBelow } from '../descendants.ts';
import { type Forwarder, openForwarder } from '../forwarder.ts';
import type { OwnStreams } from '../streams.ts';
import { ownVariables } from '../variables.ts';
import { Task, type TaskHost } from './task.ts';
import { Terminals } from './terminals.ts';
import { Transcripts } from './transcripts.ts';

/** How long what runs may take to end where the daemon has gone. */
const END_GRACE_MS = 3000;

interface Greeted {
  readonly sessionId: string;
  readonly host: TaskHost;
}

/** Resolves when the connection has ended and what ran on it too. */
export async function serve({ input, output }: OwnStreams, agents: AgentSource, stop: AbortSignal): Promise<number> {
  const onUnforeseen = (error: unknown, method: string) => console.error(`${method} failed:`, error);
  const peer = new RpcPeer(portOfStreams(input, output), { onUnforeseen });
  await using executor = new Executor(peer, agents);
  executor.listen();
  peer.start();
  stop.addEventListener('abort', () => peer.close(), { once: true });
  const { code, message } = await peer.closed;
  if (code !== 'RUNNER_PROTOCOL') return 0;
  console.error(message);
  return 1;
}

class Executor implements AsyncDisposable {
  readonly #peer: RpcPeer;
  readonly #agents: AgentSource;
  readonly #terminals: Terminals;
  readonly #transcripts: Transcripts;
  #forwarder: Forwarder | undefined;
  #wasGreeted = false;
  /** Once it is ready for a prompt. */
  #greeted: Greeted | undefined;
  #task: { readonly task: Task; readonly ended: Promise<unknown> } | undefined;

  constructor(peer: RpcPeer, agents: AgentSource) {
    this.#peer = peer;
    this.#agents = agents;
    this.#terminals = new Terminals(peer, ownVariables());
    this.#transcripts = new Transcripts(agents, ownVariables());
  }

  listen(): void {
    this.#peer
      .handle({ ...Hello, params: AnyHello }, (params) => this.#hello(params))
      .handle(Ping, () => {
        const memory_bytes = process.memoryUsage.rss();
        return { uptime_ms: process.uptime() * 1000, memory_bytes, ...(this.#task && { task_id: this.#task.task.id }) };
      })
      .handle(ExecutePrompt, (prompt, { signal }) => this.#execute(prompt, signal))
      .handle(ReadTranscript, async (wanted) => {
        this.#greeting();
        return await this.#transcripts.part(wanted);
      })
      .handle(StopTask, ({ task_id }) => {
        const task = this.#running(task_id);
        task?.stop();
        return { stopped: task !== undefined };
      })
      .handle(PermissionResolved, (resolved) => ({
        accepted: this.#running(resolved.task_id)?.permissions.resolve(resolved) ?? false,
      }))
      .handle(Shutdown, async ({ grace_ms }) => {
        await this.#stopTask(grace_ms ?? END_GRACE_MS);
        // After the reply, which is written before the event loop turns.
        setImmediate(() => this.#peer.close());
        return {};
      })
      .handle(SpawnTerminal, (params) => {
        this.#greeting();
        return this.#terminals.spawn(params);
      })
      .handle(TerminateTerminal, ({ terminal_id }) => ({ terminated: this.#terminals.terminate(terminal_id) }))
      .on(TerminalInput, ({ terminal_id, data }) => this.#terminals.type(terminal_id, data));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stopTask(END_GRACE_MS);
    this.#terminals.close();
    await this.#forwarder?.close();
  }

  async #hello({ protocol_version, ...rest }: z.output<typeof AnyHello>): Promise<z.input<typeof Hello.result>> {
    if (protocol_version !== PROTOCOL_VERSION) {
      const message = `The server speaks version ${protocol_version} of the protocol, and this runner ${PROTOCOL_VERSION}.`;
      throw new CellaError('RUNNER_VERSION', message, {
        details: { runner: PROTOCOL_VERSION, server: protocol_version },
      });
    }
    const parsed = Hello.params.safeParse({ protocol_version, ...rest });
    if (!parsed.success) throw new CellaError('INVALID_OPTIONS', `hello: ${describeFirstIssue(parsed.error)}.`);
    if (this.#wasGreeted) throw new CellaError('RUNNER_PROTOCOL', 'This runner has been greeted already.');
    this.#wasGreeted = true;
    const { session_id, key_mode, gateway_socket, agentic_tool, enclosed = false } = parsed.data;
    this.#forwarder = gateway_socket === undefined ? undefined : await openForwarder(gateway_socket);
    // Ahead of the first prompt, which tells what is wrong with it.
    if (agentic_tool !== undefined) await this.#agents.load(agentic_tool).catch(() => {});
    this.#greeted = {
      sessionId: session_id,
      host: {
        peer: this.#peer,
        agents: this.#agents,
        keyMode: key_mode,
        gatewayUrl: this.#forwarder?.url,
        env: ownVariables(),
        tidy: () => this.#tidy(enclosed),
      },
    };
    return { protocol_version: PROTOCOL_VERSION, pid: process.pid, agents: [...this.#agents.names] };
  }

  /** Where it finds no end, it ends itself: whoever stands over it ends all of it then. */
  async #tidy(enclosed: boolean): Promise<void> {
    // Whoever stands over the runner adopts what has lost its parent; elsewhere that is the whole machine.
    const root = enclosed && process.ppid > 1 ? process.ppid : process.pid;
    if (await endBelow(root, this.#terminals.pids)) return;
    console.error('What the turn has left running could not be ended.');
    process.exit(1);
  }

  #greeting(): Greeted {
    if (this.#greeted) return this.#greeted;
    throw new CellaError('RUNNER_PROTOCOL', 'The first call to a runner is hello.');
  }

  async #execute(prompt: z.output<typeof ExecutePrompt.params>, signal: AbortSignal) {
    const { sessionId, host } = this.#greeting();
    if (prompt.session_id !== sessionId) {
      throw new CellaError('RUNNER_PROTOCOL', 'The prompt is for another session than this runner’s.');
    }
    if (this.#task) throw new CellaError('AGENT_BUSY', `The runner is at work on ${this.#task.task.id}.`);
    const task = new Task(host, prompt);
    signal.addEventListener('abort', () => task.stop(), { once: true });
    const ended = task.run().finally(() => {
      this.#task = undefined;
    });
    this.#task = { task, ended };
    return await ended;
  }

  #running(id: string): Task | undefined {
    return this.#task?.task.id === id ? this.#task.task : undefined;
  }

  /** What does not end in time is left to the end of the process. */
  async #stopTask(graceMs: number): Promise<void> {
    if (!this.#task) return;
    const { task, ended } = this.#task;
    this.#task = undefined;
    task.stop();
    let timer: NodeJS.Timeout | undefined;
    const patience = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, graceMs);
    });
    // How it ended is told to whoever prompted, if anybody is left to be told.
    await Promise.race([ended.catch(() => {}), patience]);
    clearTimeout(timer);
  }
}

/** Of any version: the rest is looked at once it is known to be ours. */
const AnyHello = z.looseObject({ protocol_version: z.int() });
