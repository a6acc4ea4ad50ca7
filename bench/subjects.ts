/** The two sides of the comparison, with the same Python and libraries. Disposing it ends everything that was opened here. */

import { rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Session, type SessionOptions, shutdown } from '../src/index.ts';
import { CellaServer } from './cella-server.ts';
import { IPykernel } from './peers/ipykernel.ts';
import { JupyterServer } from './peers/jupyter-server.ts';
import { findPeer, type Peer } from './peers/setup.ts';

export type Subject = Session | IPykernel | JupyterServer | CellaServer;

export interface Pair extends AsyncDisposable {
  readonly cella: Session;
  readonly ipykernel: IPykernel;
}

export class Subjects implements AsyncDisposable {
  readonly peer: Peer;
  readonly #folder: string;
  readonly #opening = new Set<Promise<Subject>>();
  readonly #subjects = new Set<Subject>();
  readonly #onExit = () => rmSync(this.#folder, { recursive: true, force: true });
  #opened = 0;
  #closed = false;

  private constructor(peer: Peer, folder: string) {
    this.peer = peer;
    this.#folder = folder;
    process.once('exit', this.#onExit);
  }

  static async prepare(): Promise<Subjects> {
    return new Subjects(await findPeer(), await mkdtemp(join(tmpdir(), 'cella-bench-')));
  }

  /** The options of every session of Cella. */
  get options(): { readonly python: string; readonly preload: string[]; readonly dataDir: string } {
    return { python: this.peer.python, preload: ['numpy'], dataDir: join(this.#folder, 'data') };
  }

  /** Each session has its own agent key, and so its own workspace. */
  cella(options: SessionOptions = {}): Promise<Session> {
    const agentKey = `bench ${this.#opened++}`;
    return this.#keep(() => Session.open({ agentKey, ...this.options, ...options }));
  }

  ipykernel(): Promise<IPykernel> {
    return this.#keep(() => IPykernel.start(this.peer, this.#folder));
  }

  jupyterServer(): Promise<JupyterServer> {
    return this.#keep(() => JupyterServer.start(this.peer.python, this.#folder));
  }

  cellaServer(): Promise<CellaServer> {
    return this.#keep(() => CellaServer.start(this.peer.python));
  }

  async pair(): Promise<Pair> {
    const [cella, ipykernel] = await Promise.all([this.cella(), this.ipykernel()]);
    return { cella, ipykernel, [Symbol.asyncDispose]: () => this.end(cella, ipykernel) };
  }

  async end(...subjects: readonly Subject[]): Promise<void> {
    await Promise.all(subjects.map((subject) => subject.close()));
    for (const subject of subjects) this.#subjects.delete(subject);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await Promise.allSettled(this.#opening);
    await this.end(...this.#subjects);
    await shutdown();
    await rm(this.#folder, { recursive: true, force: true });
    process.off('exit', this.#onExit);
  }

  async #keep<T extends Subject>(open: () => Promise<T>): Promise<T> {
    if (this.#closed) throw new Error('The benchmark was stopped.');
    const opening = open();
    this.#opening.add(opening);
    try {
      const subject = await opening;
      this.#subjects.add(subject);
      return subject;
    } finally {
      this.#opening.delete(opening);
    }
  }
}

/** Runs code that must succeed. */
export async function runOk(session: Session, code: string, onText: (text: string) => void = () => {}): Promise<void> {
  const result = await session.run(code, {
    onEvent: (event) => {
      if (event.type === 'stdout') onText(event.text);
    },
  });
  if (result.status !== 'ok') throw new Error(`Cella answered ${result.status} to ${code.slice(0, 80)}`);
}
