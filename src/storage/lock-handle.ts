/** The handle of an acquired lock, and the errors about locks that all storages share. */

import { basename } from 'node:path';
import { CellaError } from '../protocol/errors.ts';
import type { Lock, LockOwner, LockState } from './contract.ts';

type LockHandleState =
  | { readonly kind: 'held' | 'uncertain' | 'lost' }
  | { readonly kind: 'released'; readonly done: Promise<void> };

export class LockHandle implements Lock {
  readonly key: string;
  readonly #release: () => Promise<void>;
  readonly #watchers = new Set<(state: LockState) => void>();
  #state: LockHandleState = { kind: 'held' };
  #reported: LockState = 'held';

  constructor(key: string, release: () => Promise<void>) {
    this.key = key;
    this.#release = release;
  }

  get held(): boolean {
    return this.#state.kind === 'held';
  }

  get state(): LockState {
    return this.#state.kind;
  }

  watch(onChange: (state: LockState) => void): () => void {
    this.#watchers.add(onChange);
    return () => this.#watchers.delete(onChange);
  }

  release(): Promise<void> {
    const state = this.#state;
    if (state.kind === 'lost') return Promise.resolve();
    const done = state.kind === 'released' ? state.done.catch(() => this.#release()) : this.#release();
    this.#state = { kind: 'released', done };
    return done;
  }

  /** Sets `held` to false. Watchers are not called yet, because the next renewal usually decides. */
  suspect(): void {
    if (this.#state.kind === 'held') this.#state = { kind: 'uncertain' };
  }

  /** For storages whose locks expire. A lost or released lock stays so. */
  setState(kind: 'held' | 'uncertain' | 'lost'): void {
    const before = this.#state.kind;
    if (before === 'released' || before === 'lost') return;
    this.#state = { kind };
    if (before === kind && this.#reported === kind) return;
    this.#reported = kind;
    for (const onChange of this.#watchers) onChange(kind);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}

export function lockBusy(
  agentKey: string,
  { pid, host, command, since }: Omit<LockOwner, 'id'> & { command: string },
): CellaError {
  const process = `process ${pid}${command ? ` (${command})` : ''} on ${host}`;
  const time = new Date(since).toISOString();
  return new CellaError('KEY_BUSY', `Agent key ${JSON.stringify(agentKey)} is in use by ${process} since ${time}.`, {
    details: { pid, since, host, ...(command ? { command } : {}) },
  });
}

export function leaseLost(agentKey: string): CellaError {
  const message = `Agent key ${JSON.stringify(agentKey)} was taken over by another process: this one writes nothing more.`;
  return new CellaError('LEASE_LOST', message, { details: { agentKey } });
}

export function lockAborted(agentKey: string, cause: unknown): CellaError {
  return new CellaError('ABORTED', `Waiting for agent key ${JSON.stringify(agentKey)} was aborted.`, { cause });
}

/** The program and its subcommand, such as `cella chat`: other arguments may be private. */
export function ownCommand(): string {
  const [, program = process.execPath, word = ''] = process.argv;
  return [basename(program).replace(/\.[cm]?[jt]s$/, ''), ...(/^[a-z][a-z-]{0,19}$/.test(word) ? [word] : [])].join(
    ' ',
  );
}
