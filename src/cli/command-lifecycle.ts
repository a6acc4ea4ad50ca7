/** Signals, abortable work, and sessions that are open for one command. */

import type { SessionApi } from '../session/api.ts';
import type { OpenOptions } from './backend/backend.ts';
import type { SessionContext } from './define-command.ts';
import { Exit } from './exit-codes.ts';

export interface SignalSource {
  on(signal: NodeJS.Signals, listener: () => void): unknown;
  off(signal: NodeJS.Signals, listener: () => void): unknown;
}

/** The signals that end a command. */
export const END_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
/** The terminal sends Ctrl-C to a process, and a program such as npm passes it on again. */
export const SAME_SIGNAL_MS = 250;

/**
 * The first signal requests the end. After it signals have their default action: the second one ends the process even if its
 * event loop is blocked. In `cella serve`, `endAtSecondSignal` ends it instead.
 */
export class EndSignals implements Disposable {
  readonly #source: SignalSource;
  readonly #ended = Promise.withResolvers<NodeJS.Signals>();
  readonly #listeners: ReadonlyMap<NodeJS.Signals, () => void>;
  #first: NodeJS.Signals | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(source: SignalSource) {
    this.#source = source;
    this.#listeners = new Map(END_SIGNALS.map((name) => [name, () => this.#receive(name)]));
    for (const [name, listener] of this.#listeners) source.on(name, listener);
  }

  get ended(): Promise<NodeJS.Signals> {
    return this.#ended.promise;
  }

  #receive(name: NodeJS.Signals): void {
    if (this.#first === undefined) {
      this.#first = name;
      this.#ended.resolve(name);
      this.#timer = setTimeout(() => this[Symbol.dispose](), SAME_SIGNAL_MS).unref();
    } else if (name !== this.#first) {
      this[Symbol.dispose]();
      process.kill(process.pid, name);
    }
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    for (const [name, listener] of this.#listeners) this.#source.off(name, listener);
  }
}

export class Signals implements Disposable {
  readonly #source: SignalSource;
  readonly #takeInterrupt: () => boolean;
  readonly #ended = Promise.withResolvers<number>();
  #exitCode: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** `takeInterrupt` returns true if it handled the interrupt; otherwise the command ends. */
  constructor(source: SignalSource, takeInterrupt: () => boolean) {
    this.#source = source;
    this.#takeInterrupt = takeInterrupt;
    source.on('SIGINT', this.interrupt);
    source.on('SIGTERM', this.#terminate);
    source.on('SIGHUP', this.#hangUp);
  }

  /** The exit code for the received signal, if any. */
  get exitCode(): number | undefined {
    return this.#exitCode;
  }

  get ended(): Promise<number> {
    return this.#ended.promise;
  }

  /** Handles Ctrl-C for a terminal in raw mode, which sends no signal. */
  readonly interrupt = (): void => {
    if (!this.#takeInterrupt()) this.#end(Exit.interrupted);
  };

  readonly #terminate = (): void => this.#end(Exit.terminated);
  readonly #hangUp = (): void => this.#end(Exit.hangup);

  #end(exitCode: number): void {
    this.#exitCode ??= exitCode;
    this.#ended.resolve(this.#exitCode);
    // A second Ctrl-C or signal while closing ends the command at once.
    this.#source.off('SIGINT', this.interrupt);
    this.#timer ??= setTimeout(() => this[Symbol.dispose](), SAME_SIGNAL_MS).unref();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#source.off('SIGINT', this.interrupt);
    this.#source.off('SIGTERM', this.#terminate);
    this.#source.off('SIGHUP', this.#hangUp);
  }
}

/** Returns the exit code of the work, or of the signal. */
export async function runAbortable(
  { signals: source }: Pick<SessionContext, 'signals'>,
  work: (signal: AbortSignal) => Promise<number>,
): Promise<number> {
  const stop = new AbortController();
  using signals = new Signals(source, () => false);
  void signals.ended.then(() => stop.abort());
  try {
    return await work(stop.signal);
  } catch (error) {
    // The person who stopped it needs no message.
    if (signals.exitCode !== undefined) return signals.exitCode;
    throw error;
  }
}

/** Returns the exit code of the work, or of the signal. */
export async function withSession(
  options: OpenOptions,
  context: SessionContext,
  work: (session: SessionApi, signals: Signals) => Promise<number>,
): Promise<number> {
  using signals = new Signals(context.signals, () => false);
  const { terminal } = context;
  const onProgress = (text: string) => {
    if (terminal.stderrIsScreen) terminal.progress(text);
  };
  await using session = await openWithStatus({ onProgress, ...options }, context);
  if (signals.exitCode !== undefined) return signals.exitCode;
  return await Promise.race([work(session, signals), signals.ended]);
}

/** After this delay a person needs to see that something is happening. */
const STATUS_DELAY_MS = 700;

/** Opens a session. Shows what it waits for if that takes a while. */
export async function openWithStatus(
  options: OpenOptions,
  { terminal, backend }: Pick<SessionContext, 'terminal' | 'backend'>,
): Promise<SessionApi> {
  const showStatus = () => {
    if (terminal.stderrIsScreen) terminal.progress(describeStart(options));
  };
  const timer = setTimeout(showStatus, STATUS_DELAY_MS);
  const onProgress = (text: string) => {
    timer.refresh();
    options.onProgress?.(text);
  };
  try {
    return await backend.openSession({ ...options, onProgress });
  } finally {
    clearTimeout(timer);
    terminal.clearStatus();
  }
}

function describeStart({ executor }: Pick<OpenOptions, 'executor'>): string {
  if (executor === 'in-process') return 'Starting Python in WebAssembly; the first time takes a while';
  if (executor === 'container') return 'Starting a container; the first one of an image takes a while';
  return 'Starting a kernel';
}
