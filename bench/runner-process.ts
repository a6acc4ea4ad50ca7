/** The built runner as a process of the benchmark's own, with a server's side that only greets and asks whether it is well. */

import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { RpcPeer } from '../src/protocol/rpc-peer.ts';
import { portOfStreams } from '../src/protocol/rpc-streams.ts';
import { Hello, Ping, PROTOCOL_VERSION } from '../src/protocol/runner-methods.ts';

const RUNNER = fileURLToPath(new URL('../dist/runner/cella-runner.mjs', import.meta.url));

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

/** Node by itself, which no runner can be faster than. */
export async function startNode(): Promise<number> {
  const began = performance.now();
  await once(spawn(process.execPath, ['--eval', '0'], { stdio: 'ignore', env: {} }), 'exit');
  return performance.now() - began;
}
