/** One holder for each agent key: a row in cella.db that names it, worth nothing once the holder has ended. */

import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { basename } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { CellaError } from '../../protocol/errors.ts';
import type { AcquireOptions, Clock, Lock, LockHolder, Locks } from '../contract.ts';
import type { Connection, Row } from './connection.ts';
import type { Database } from './database.ts';
import type { Holder } from './identity.ts';
import type { Lifelines } from './lifeline.ts';
import { agentColumn } from './schema.ts';

/** How often a lock that others hold is looked at. */
const LOOK_MS = 20;

export class FileLocks implements Locks {
  readonly #database: Database;
  readonly #lifelines: Lifelines;
  readonly #clock: Clock;
  readonly #column: (key: string) => string;
  readonly #held = new Set<FileLock>();

  /** `column` says how a key is written in the database: locks on other things than agents have other columns. */
  constructor(database: Database, lifelines: Lifelines, clock: Clock, column = agentColumn) {
    this.#database = database;
    this.#lifelines = lifelines;
    this.#clock = clock;
    this.#column = column;
  }

  async acquire(agentKey: string, { waitMs = 0, signal }: AcquireOptions = {}): Promise<Lock> {
    const deadline = performance.now() + waitMs;
    for (;;) {
      if (signal?.aborted) throw aborted(agentKey, signal.reason);
      const grip = randomUUID();
      const { holder } = this.#lifelines;
      let other = await this.#database.write((db) => this.#take(db, agentKey, grip, holder));
      if (!other) return this.#keep(agentKey, grip, signal);
      while (other) {
        const left = deadline - performance.now();
        if (left <= 0) throw busy(agentKey, other);
        await delay(Math.min(left, LOOK_MS), undefined, signal ? { signal } : {}).catch((cause) => {
          throw aborted(agentKey, cause);
        });
        other = await this.#database.read((db) => this.#holderOf(db, agentKey));
      }
    }
  }

  async holder(agentKey: string): Promise<LockHolder | undefined> {
    const row = await this.#database.read((db) => this.#holderOf(db, agentKey));
    return row && { pid: Number(row.pid), host: String(row.host), since: Number(row.since) };
  }

  /** Lets go of all that were acquired here. */
  async close(): Promise<void> {
    for (const lock of [...this.#held]) await lock.release();
  }

  /** Looks and takes in one transaction, so that of several who find a dead holder's lock one gets it. */
  #take(db: Connection, agentKey: string, grip: string, holder: Holder): Row | undefined {
    const other = this.#holderOf(db, agentKey);
    if (other) return other;
    db.run(
      'INSERT OR REPLACE INTO locks (agent, grip, holder, pid, host, command, since) VALUES (?, ?, ?, ?, ?, ?, ?)',
      this.#column(agentKey),
      grip,
      holder,
      process.pid,
      hostname(),
      ownCommand(),
      Math.trunc(this.#clock()),
    );
    return undefined;
  }

  #holderOf(db: Connection, agentKey: string): Row | undefined {
    const row = db.get('SELECT holder, pid, host, command, since FROM locks WHERE agent = ?', this.#column(agentKey));
    return row && this.#lifelines.isAlive(String(row.holder)) ? row : undefined;
  }

  async #keep(agentKey: string, grip: string, signal: AbortSignal | undefined): Promise<Lock> {
    const lock = new FileLock(async () => {
      await this.#database.write((db) =>
        db.run('DELETE FROM locks WHERE agent = ? AND grip = ?', this.#column(agentKey), grip),
      );
      this.#held.delete(lock);
    });
    this.#held.add(lock);
    if (!signal?.aborted) return lock;
    await lock.release();
    throw aborted(agentKey, signal.reason);
  }
}

class FileLock implements Lock {
  readonly #letGo: () => Promise<void>;
  #state: { kind: 'held' } | { kind: 'releasing'; done: Promise<void> } = { kind: 'held' };

  constructor(letGo: () => Promise<void>) {
    this.#letGo = letGo;
  }

  get held(): boolean {
    return this.#state.kind === 'held';
  }

  release(): Promise<void> {
    const done = this.#state.kind === 'held' ? this.#letGo() : this.#state.done.catch(() => this.#letGo());
    this.#state = { kind: 'releasing', done };
    return done;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}

function busy(agentKey: string, { pid, host, command, since }: Row): CellaError {
  const process = `process ${pid}${command ? ` (${command})` : ''} on ${host}`;
  const time = new Date(Number(since)).toISOString();
  return new CellaError('AGENT_BUSY', `Agent ${JSON.stringify(agentKey)} is in use by ${process} since ${time}.`, {
    details: {
      pid: Number(pid),
      since: Number(since),
      host: String(host),
      ...(command ? { command: String(command) } : {}),
    },
  });
}

function aborted(agentKey: string, cause: unknown): CellaError {
  return new CellaError('ABORTED', `Nobody waits for agent ${JSON.stringify(agentKey)} any longer.`, { cause });
}

/** The program and its subcommand, such as `cella chat`: other arguments may hold what is nobody's business. */
function ownCommand(): string {
  const [, program = process.execPath, word = ''] = process.argv;
  return [basename(program).replace(/\.[cm]?[jt]s$/, ''), ...(/^[a-z][a-z-]{0,19}$/.test(word) ? [word] : [])].join(
    ' ',
  );
}
