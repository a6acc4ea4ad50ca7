/** The runner of coding agents: how long it takes to start, and how long a call over its stdin and stdout takes. */

import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { portOfStreams, RpcPeer } from '../../src/protocol/rpc-peer.ts';
import { Hello, Ping, PROTOCOL_VERSION } from '../../src/protocol/runner-methods.ts';
import type { Plan } from '../plan.ts';
import type { Progress } from '../progress.ts';
import type { Agents } from '../result.ts';
import { median, percentile, rounded } from '../statistics.ts';

/** The number of concurrent calls. */
const AT_ONCE = 64;

export async function measureAgents(plan: Plan['agents'], progress: Progress): Promise<Agents> {
  const starts: number[] = [];
  const nodes: number[] = [];
  for (let start = 0; start < plan.starts; start++) {
    nodes.push(await startNode());
    await using runner = await RunnerProcess.start();
    starts.push(runner.startMs);
    progress.tick(start + 1, plan.starts);
  }
  await using runner = await RunnerProcess.start();
  const { memory_bytes } = await runner.call();
  for (let call = 0; call < plan.warmUpCalls; call++) await runner.call();
  const calls: number[] = [];
  for (let call = 0; call < plan.calls; call++) {
    const began = performance.now();
    await runner.call();
    calls.push(performance.now() - began);
  }
  const began = performance.now();
  const line = async () => {
    for (let call = 0; call < plan.calls / AT_ONCE; call++) await runner.call();
  };
  await Promise.all(Array.from({ length: AT_ONCE }, line));
  const seconds = (performance.now() - began) / 1000;
  return {
    startMs: rounded(median(starts)),
    startP95Ms: rounded(percentile(starts, 95)),
    nodeMs: rounded(median(nodes)),
    memoryMb: rounded(memory_bytes / 2 ** 20),
    callMs: rounded(median(calls)),
    callP95Ms: rounded(percentile(calls, 95)),
    callsPerS: rounded((Math.ceil(plan.calls / AT_ONCE) * AT_ONCE) / seconds),
  };
}

const RUNNER = fileURLToPath(new URL('../../dist/runner/cella-runner.mjs', import.meta.url));

/** The built runner in its own process, and a server side that sends only `hello` and `ping`. */
export class RunnerProcess implements AsyncDisposable {
  /** From the start of the process to its answer to `hello`, with Claude's adapter loaded. */
  readonly startMs: number;
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #peer: RpcPeer;

  private constructor(child: ChildProcessByStdio<Writable, Readable, null>, peer: RpcPeer, startMs: number) {
    this.#child = child;
    this.#peer = peer;
    this.startMs = startMs;
  }

  static async start(): Promise<RunnerProcess> {
    const began = performance.now();
    const child = spawn(process.execPath, [RUNNER, 'serve'], { stdio: ['pipe', 'pipe', 'inherit'], env: {} });
    const peer = new RpcPeer(portOfStreams(child.stdout, child.stdin)).start();
    await peer.call(Hello, {
      protocol_version: PROTOCOL_VERSION,
      session_id: 'ses_0123456789abcdef',
      runner_id: 'bench',
      key_mode: 'gateway',
      agent: 'claude',
    });
    return new RunnerProcess(child, peer, performance.now() - began);
  }

  async call(): Promise<{ readonly memory_bytes: number }> {
    return await this.#peer.call(Ping, {});
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const gone = once(this.#child, 'exit');
    this.#peer.close();
    this.#child.stdin.end();
    await gone;
  }
}

/** Node alone: the lower bound for any runner. */
export async function startNode(): Promise<number> {
  const began = performance.now();
  await once(spawn(process.execPath, ['--eval', '0'], { stdio: 'ignore', env: {} }), 'exit');
  return performance.now() - began;
}
