/** An MCP server that is a program of the host, with messages as lines on its stdin and stdout. */

import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { type JSONRPCMessage, serializeMessage, type Transport } from '@modelcontextprotocol/client';
import { settlesWithin } from '../../lib/deadline.ts';
import { endsAfterKill } from '../../lib/process-end.ts';
import { killTree, newProcessTag } from '../../sandbox/process-tree.ts';
import { notStarted } from './host-command.ts';
import { MessageLines } from './mcp-lines.ts';
import { tail } from './text.ts';

/** How long a server has to end by itself once its input is closed. */
const GRACE_MS = 500;
/** And how long its last words may take to arrive once it has ended. */
const LAST_WORDS_MS = 500;

export interface Program {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
}

type Child = ChildProcessByStdio<Writable, Readable, Readable>;

/** It leads a process group of its own, gets no variable of the host, and takes everything it started along when it ends. */
export class ProgramTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;

  readonly #program: Program;
  readonly #mark = newProcessTag();
  readonly #lines = new MessageLines();
  #child: Child | undefined;
  #lastWords = '';
  #ended: Promise<void> = Promise.resolve();

  constructor(program: Program) {
    this.#program = program;
  }

  /** The end of what it has written to stderr. */
  get lastWords(): string {
    return this.#lastWords.trim();
  }

  async start(): Promise<void> {
    const { command, args, env, cwd } = this.#program;
    const child = spawn(command, args, { cwd, env: { ...env, ...this.#mark.env }, stdio: 'pipe', detached: true });
    this.#child = child;
    this.#ended = new Promise((resolve) => {
      child.once('exit', () => {
        // What the server left behind may hold the pipes open.
        this.#kill();
        const timer = setTimeout(() => this.#end(resolve), LAST_WORDS_MS);
        child.once('close', () => {
          clearTimeout(timer);
          this.#end(resolve);
        });
      });
      child.on('error', () => resolve());
    });
    child.stdin.on('error', (error) => this.onerror?.(error));
    child.stderr.on('data', (chunk: Buffer) => {
      this.#lastWords = tail(this.#lastWords + chunk.toString());
    });
    child.stdout.on('data', (chunk: Buffer) => this.#receive(chunk));
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve);
      child.once('error', (error) => reject(notStarted(command, error)));
    });
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const child = this.#child;
    const sent = await new Promise<boolean>((resolve) => {
      if (child === undefined) resolve(false);
      else child.stdin.write(serializeMessage(message), (error) => resolve(error == null));
    });
    if (sent) return;
    // A server that no longer reads has ended, or is about to, and its last words are on the way.
    await Promise.race([this.#ended, delay(LAST_WORDS_MS, undefined, { ref: false })]);
    throw new Error('the server ended');
  }

  async close(): Promise<void> {
    this.#child?.stdin.end();
    if (await settlesWithin(this.#ended, GRACE_MS)) return;
    const { pid } = this.#child ?? {};
    this.#kill();
    await endsAfterKill(this.#ended, `The MCP server ${this.#program.command} (process ${pid})`);
  }

  #receive(chunk: Buffer): void {
    try {
      for (const message of this.#lines.push(chunk)) this.onmessage?.(message);
    } catch (error) {
      this.#lastWords = error instanceof Error ? error.message : String(error);
      this.#child?.stdout.removeAllListeners('data');
      this.#kill();
    }
  }

  #kill(): void {
    if (this.#child?.pid !== undefined) killTree(this.#child.pid, this.#mark, { ownGroup: true });
  }

  /** Once, however it came to its end. */
  #end(done: () => void): void {
    const child = this.#child;
    this.#child = undefined;
    if (child !== undefined) {
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
      this.onclose?.();
    }
    done();
  }
}
