/** `serve`: a long-lived runner for one session, one turn at a time, with RPC over stdin and stdout. */

import { z } from 'zod';
import { CellaError } from '../protocol/errors.ts';
import { describeFirstIssue, RpcPeer } from '../protocol/rpc-peer.ts';
import { portOfStreams } from '../protocol/rpc-streams.ts';
import { transcriptPieces } from '../protocol/runner-commands.ts';
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
} from '../protocol/runner-methods.ts';
import { type AgentLoader, noModelAccess } from './agent-turn.ts';
import { killSubtree } from './descendants.ts';
import { type LoopbackForwarder, openLoopbackForwarder } from './loopback-forwarder.ts';
import { PtyTerminals } from './pty-terminals.ts';
import { ownVariables, type RunnerStreams } from './runner-process.ts';
import { ServedTurn, type TurnHost } from './served-turn.ts';

/** How long a turn may take to stop when the server has gone. */
const END_GRACE_MS = 3000;

interface Handshake {
  readonly sessionId: string;
  readonly host: TurnHost;
}

/** Resolves when the connection and the turn on it have ended. */
export async function serve({ input, output }: RunnerStreams, agents: AgentLoader, stop: AbortSignal): Promise<number> {
  const onUnforeseen = (error: unknown, method: string) => console.error(`${method} failed:`, error);
  const peer = new RpcPeer(portOfStreams(input, output), { onUnforeseen });
  await using executor = new RpcServer(peer, agents);
  executor.listen();
  peer.start();
  stop.addEventListener('abort', () => peer.close(), { once: true });
  const { code, message } = await peer.closed;
  if (code !== 'RUNNER_PROTOCOL') return 0;
  console.error(message);
  return 1;
}

class RpcServer implements AsyncDisposable {
  readonly #peer: RpcPeer;
  readonly #agents: AgentLoader;
  readonly #terminals: PtyTerminals;
  readonly #transcripts: TranscriptReader;
  #forwarder: LoopbackForwarder | undefined;
  #wasGreeted = false;
  /** Set once it is ready for a prompt. */
  #greeted: Handshake | undefined;
  #task: { readonly task: ServedTurn; readonly ended: Promise<unknown> } | undefined;

  constructor(peer: RpcPeer, agents: AgentLoader) {
    this.#peer = peer;
    this.#agents = agents;
    this.#terminals = new PtyTerminals(peer, ownVariables());
    this.#transcripts = new TranscriptReader(agents, ownVariables());
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
        // After the reply is written.
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
    this.#forwarder = gateway_socket === undefined ? undefined : await openLoopbackForwarder(gateway_socket);
    // Loads ahead of the first prompt, which reports errors.
    if (agentic_tool !== undefined) await this.#agents.load(agentic_tool).catch(() => {});
    this.#greeted = {
      sessionId: session_id,
      host: {
        peer: this.#peer,
        agents: this.#agents,
        keyMode: key_mode,
        gatewayUrl: this.#forwarder?.url,
        env: ownVariables(),
        killLeftovers: () => this.#tidy(enclosed),
      },
    };
    return { protocol_version: PROTOCOL_VERSION, pid: process.pid, agents: [...this.#agents.names] };
  }

  /** If it cannot kill them all, the runner exits, and the supervisor kills the rest. */
  async #tidy(enclosed: boolean): Promise<void> {
    // In a sandbox, the parent adopts orphans. Elsewhere the parent's subtree is not ours.
    const root = enclosed && process.ppid > 1 ? process.ppid : process.pid;
    if (await killSubtree(root, this.#terminals.pids)) return;
    console.error('What the turn has left running could not be ended.');
    process.exit(1);
  }

  #greeting(): Handshake {
    if (this.#greeted) return this.#greeted;
    throw new CellaError('RUNNER_PROTOCOL', 'The first call to a runner is hello.');
  }

  async #execute(prompt: z.output<typeof ExecutePrompt.params>, signal: AbortSignal) {
    const { sessionId, host } = this.#greeting();
    if (prompt.session_id !== sessionId) {
      throw new CellaError('RUNNER_PROTOCOL', 'The prompt is for another session than this runner’s.');
    }
    if (this.#task) throw new CellaError('AGENT_BUSY', `The runner is at work on ${this.#task.task.id}.`);
    const task = new ServedTurn(host, prompt);
    signal.addEventListener('abort', () => task.stop(), { once: true });
    const ended = task.run().finally(() => {
      this.#task = undefined;
    });
    this.#task = { task, ended };
    return await ended;
  }

  #running(id: string): ServedTurn | undefined {
    return this.#task?.task.id === id ? this.#task.task : undefined;
  }

  /** A turn that does not stop in time ends with the process. */
  async #stopTask(graceMs: number): Promise<void> {
    if (!this.#task) return;
    const { task, ended } = this.#task;
    this.#task = undefined;
    task.stop();
    let timer: NodeJS.Timeout | undefined;
    const patience = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, graceMs);
    });
    // The caller of the prompt gets the result.
    await Promise.race([ended.catch(() => {}), patience]);
    clearTimeout(timer);
  }
}

/** Any version; the rest is parsed once the version is known to match. */
const AnyHello = z.looseObject({ protocol_version: z.int() });

type ReadTranscriptParams = z.output<typeof ReadTranscript.params>;
type TranscriptPart = z.input<typeof ReadTranscript.result>;

export class TranscriptReader {
  readonly #agents: AgentLoader;
  readonly #env: Readonly<Record<string, string>>;
  /** The transcript that is being read; all parts come from the same read. */
  #open: { readonly conversation: string; readonly pieces: readonly string[] } | undefined;

  constructor(agents: AgentLoader, env: Readonly<Record<string, string>>) {
    this.#agents = agents;
    this.#env = env;
  }

  async part(wanted: ReadTranscriptParams): Promise<TranscriptPart> {
    const { conversation, part } = wanted;
    if (part === 0 || this.#open?.conversation !== conversation) this.#open = await this.#read(wanted);
    if (!this.#open) return { found: false, text: '', parts: 0 };
    const { pieces } = this.#open;
    if (part + 1 >= pieces.length) this.#open = undefined;
    return { found: true, text: pieces[part] ?? '', parts: pieces.length };
  }

  async #read({ agentic_tool, cwd, home_dir: homeDir, program_dir: programDir, conversation }: ReadTranscriptParams) {
    const adapter = await this.#agents.load(agentic_tool);
    const agent = await adapter.open({ cwd, homeDir, programDir, env: this.#env, model: noModelAccess, profile: {} });
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
