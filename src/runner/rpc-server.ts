/** `serve`: a long-lived runner for one session, one turn at a time, with RPC over stdin and stdout. */

import { z } from 'zod';
import { settlesWithin } from '../lib/deadline.ts';
import { CellaError } from '../protocol/errors.ts';
import { firstProblem } from '../protocol/parse.ts';
import { portOfStreams, RpcPeer } from '../protocol/rpc-peer.ts';
import {
  ExecutePrompt,
  Hello,
  PermissionResolved,
  Ping,
  PROTOCOL_VERSION,
  ReadTranscript,
  SetupSession,
  Shutdown,
  SpawnTerminal,
  StopTurn,
  TerminalTyped,
  TerminateTerminal,
} from '../protocol/runner-methods.ts';
import type { AgentLoader } from './agent-turn.ts';
import { type LoopbackForwarder, openLoopbackForwarder } from './loopback-forwarder.ts';
import { killSubtree, ownVariables, type RunnerStreams } from './own-process.ts';
import { PtyTerminals } from './pty-terminals.ts';
import { ServedTurn, type TurnHost } from './served-turn.ts';
import { ServedConversations } from './session-setup.ts';

/** How long a turn may take to stop when the server has gone. */
const END_GRACE_MS = 3000;

interface Handshake {
  readonly sessionId: string;
  readonly host: TurnHost;
}

/** Resolves when the connection and the turn on it have ended. */
export async function serveRpc(
  { input, output }: RunnerStreams,
  agents: AgentLoader,
  stop: AbortSignal,
): Promise<number> {
  const onUnforeseen = (error: unknown, method: string) => console.error(`${method} failed:`, error);
  const peer = new RpcPeer(portOfStreams(input, output), { onUnforeseen });
  await using server = new RpcServer(peer, agents);
  server.listen();
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
  readonly #conversations: ServedConversations;
  #forwarder: LoopbackForwarder | undefined;
  #gotHello = false;
  /** Set once it is ready for a prompt. */
  #handshake: Handshake | undefined;
  #running: { readonly turn: ServedTurn; readonly ended: Promise<unknown> } | undefined;

  constructor(peer: RpcPeer, agents: AgentLoader) {
    this.#peer = peer;
    this.#agents = agents;
    this.#terminals = new PtyTerminals(peer, ownVariables());
    this.#conversations = new ServedConversations(agents, ownVariables());
  }

  listen(): void {
    this.#peer
      .handle({ ...Hello, params: AnyHello }, (params) => this.#hello(params))
      .handle(Ping, () => {
        const memory_bytes = process.memoryUsage.rss();
        return { uptime_ms: process.uptime() * 1000, memory_bytes, turn_id: this.#running?.turn.id };
      })
      .handle(ExecutePrompt, (prompt, { signal }) => this.#execute(prompt, signal))
      .handle(SetupSession, async (params) => {
        this.#requireHello();
        // An agent at work writes to the same folder.
        this.#checkIdle();
        return await this.#conversations.setup(params);
      })
      .handle(ReadTranscript, async (params) => {
        this.#requireHello();
        return await this.#conversations.read(params);
      })
      .handle(StopTurn, ({ turn_id }) => {
        const turn = this.#runningTurn(turn_id);
        turn?.stop();
        return { stopped: turn !== undefined };
      })
      .handle(PermissionResolved, (resolved) => ({
        accepted: this.#runningTurn(resolved.turn_id)?.permissions.resolve(resolved) ?? false,
      }))
      .handle(Shutdown, async ({ grace_ms }) => {
        await this.#stopTurn(grace_ms ?? END_GRACE_MS);
        // After the reply is written.
        setImmediate(() => this.#peer.close());
        return {};
      })
      .handle(SpawnTerminal, (params) => {
        this.#requireHello();
        return this.#terminals.spawn(params);
      })
      .handle(TerminateTerminal, ({ terminal_id }) => ({ terminated: this.#terminals.terminate(terminal_id) }))
      .on(TerminalTyped, ({ terminal_id, data }) => this.#terminals.type(terminal_id, data));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stopTurn(END_GRACE_MS);
    this.#terminals.close();
    await this.#forwarder?.close();
  }

  async #hello({ protocol_version, ...rest }: z.output<typeof AnyHello>): Promise<z.input<typeof Hello.result>> {
    if (protocol_version !== PROTOCOL_VERSION) {
      const message = `The server speaks version ${protocol_version} of the protocol, this runner version ${PROTOCOL_VERSION}.`;
      throw new CellaError('RUNNER_VERSION', message, {
        details: { runner: PROTOCOL_VERSION, server: protocol_version },
      });
    }
    const parsed = Hello.params.safeParse({ protocol_version, ...rest });
    if (!parsed.success) throw new CellaError('INVALID_OPTIONS', `hello: ${firstProblem(parsed.error)}.`);
    if (this.#gotHello) throw new CellaError('RUNNER_PROTOCOL', 'This runner has already received hello.');
    this.#gotHello = true;
    const { session_id, key_mode, gateway_socket, agent, isolated = false } = parsed.data;
    this.#forwarder = gateway_socket === undefined ? undefined : await openLoopbackForwarder(gateway_socket);
    // Loads ahead of the first prompt, which reports errors.
    if (agent !== undefined) await this.#agents.load(agent).catch(() => {});
    this.#handshake = {
      sessionId: session_id,
      host: {
        peer: this.#peer,
        agents: this.#agents,
        keyMode: key_mode,
        gatewayUrl: this.#forwarder?.url,
        env: ownVariables(),
        killLeftovers: () => this.#killLeftovers(isolated),
      },
    };
    return { protocol_version: PROTOCOL_VERSION, pid: process.pid, agents: [...this.#agents.names] };
  }

  /** If it cannot kill them all, the runner exits, and the supervisor kills the rest. */
  async #killLeftovers(isolated: boolean): Promise<void> {
    // In a sandbox, the parent adopts orphans. Elsewhere the parent's subtree is not ours.
    const root = isolated && process.ppid > 1 ? process.ppid : process.pid;
    if (await killSubtree(root, this.#terminals.pids)) return;
    console.error('Processes that the turn left running could not be killed.');
    process.exit(1);
  }

  #requireHello(): Handshake {
    if (this.#handshake) return this.#handshake;
    throw new CellaError('RUNNER_PROTOCOL', 'The first call to a runner must be hello.');
  }

  async #execute(prompt: z.output<typeof ExecutePrompt.params>, signal: AbortSignal) {
    const { sessionId, host } = this.#requireHello();
    if (prompt.session_id !== sessionId) {
      throw new CellaError('RUNNER_PROTOCOL', 'The prompt is for another session.');
    }
    this.#checkIdle();
    const turn = new ServedTurn(host, prompt);
    signal.addEventListener('abort', () => turn.stop(), { once: true });
    const ended = turn.run().finally(() => {
      this.#running = undefined;
    });
    this.#running = { turn, ended };
    return await ended;
  }

  #checkIdle(): void {
    if (this.#running) throw new CellaError('AGENT_BUSY', `The runner is busy with ${this.#running.turn.id}.`);
  }

  #runningTurn(id: string): ServedTurn | undefined {
    return this.#running?.turn.id === id ? this.#running.turn : undefined;
  }

  /** A turn that does not stop in time ends with the process. */
  async #stopTurn(graceMs: number): Promise<void> {
    if (!this.#running) return;
    const { turn, ended } = this.#running;
    this.#running = undefined;
    turn.stop();
    // The caller of the prompt gets the result.
    await settlesWithin(ended, graceMs);
  }
}

/** Any version; the rest is parsed once the version is known to match. */
const AnyHello = z.looseObject({ protocol_version: z.int() });
