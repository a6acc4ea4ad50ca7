/** The signals that end a command or interrupt its code. */

import { Exit } from './exit.ts';

export interface SignalSource {
  on(signal: NodeJS.Signals, listener: () => void): unknown;
  off(signal: NodeJS.Signals, listener: () => void): unknown;
}

export class Signals implements Disposable {
  readonly #source: SignalSource;
  readonly #takeInterrupt: () => boolean;
  readonly #ended = Promise.withResolvers<number>();
  #exitCode: number | undefined;

  /** `takeInterrupt` says true where it made use of the interrupt; otherwise the command is to end. */
  constructor(source: SignalSource, takeInterrupt: () => boolean) {
    this.#source = source;
    this.#takeInterrupt = takeInterrupt;
    source.on('SIGINT', this.interrupt);
    source.on('SIGTERM', this.#terminate);
    source.on('SIGHUP', this.#hangUp);
  }

  /** The exit code that was asked for from outside, once it was. */
  get exitCode(): number | undefined {
    return this.#exitCode;
  }

  get ended(): Promise<number> {
    return this.#ended.promise;
  }

  /** What Ctrl-C does, for a terminal in raw mode, which sends no signal. */
  readonly interrupt = (): void => {
    if (!this.#takeInterrupt()) this.#end(Exit.interrupted);
  };

  readonly #terminate = (): void => this.#end(Exit.terminated);
  readonly #hangUp = (): void => this.#end(Exit.hangup);

  #end(exitCode: number): void {
    this.#exitCode ??= exitCode;
    this.#ended.resolve(this.#exitCode);
    // Whoever presses Ctrl-C again while things are being closed wants out at once.
    this.#source.off('SIGINT', this.interrupt);
  }

  [Symbol.dispose](): void {
    this.#source.off('SIGINT', this.interrupt);
    this.#source.off('SIGTERM', this.#terminate);
    this.#source.off('SIGHUP', this.#hangUp);
  }
}
