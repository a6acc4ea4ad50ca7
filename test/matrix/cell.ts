/** One cell of the matrix: an executor with a storage, and a server, folders and a package index of its own. */

import { randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { chmod, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { removeFolder } from '../../src/environments/files/remove-tree.ts';
import { FileStorage, RedisStorage, Session, type SessionOptions, type Storage, shutdown } from '../../src/index.ts';
import type { ExecutorKind } from '../../src/protocol/enums.ts';
import { sharedEngineWithImage } from '../support/docker/shared-docker.ts';
import { type PackageIndex, startIndex } from '../support/packages/package-index.ts';
import { makeWheel } from '../support/packages/wheels.ts';
import { shareCache } from '../support/run/shared-cache.ts';
import { RedisServer } from '../support/servers/redis.ts';

export interface Combination {
  readonly executor: ExecutorKind;
  readonly storage: 'file' | 'redis';
}

/** On a busy machine the first start in WebAssembly takes this long. */
const FIRST_START_MS = 150_000;

export class Cell {
  readonly combination: Combination;
  /** Has `tiny-a`, which needs `tiny-b`, and `evil`, which nobody has configured. */
  readonly index: PackageIndex;
  readonly wheels: string;
  /** Where sessions that do not say otherwise keep their packages. */
  readonly dataDir: string;
  readonly #folder: string;
  readonly #executor: SessionOptions;
  readonly #redis: RedisServer | undefined;
  readonly #prefix = randomUUID();
  readonly #sessions: Session[] = [];
  readonly #closing: { close(): Promise<unknown> }[] = [];
  #agents = 0;

  private constructor(
    combination: Combination,
    parts: { folder: string; index: PackageIndex; executor: SessionOptions; redis: RedisServer | undefined },
  ) {
    this.combination = combination;
    this.index = parts.index;
    this.#folder = parts.folder;
    this.wheels = wheelsIn(parts.folder);
    this.dataDir = dataFolder(join(parts.folder, 'data'));
    this.#executor = parts.executor;
    this.#redis = parts.redis;
  }

  /** Closed when the test has finished: nothing of it is left for another cell. */
  static async open(combination: Combination): Promise<Cell> {
    const { executor, storage } = combination;
    const folder = await mkdtemp(join(tmpdir(), 'cella-cell-'));
    onTestFinished(() => removeFolder(folder));
    // Others may pass through it, so that a sandbox can.
    await chmod(folder, 0o711);
    const wheels = wheelsIn(folder);
    await makeWheel(wheels, 'tiny-b', { version: '2.1.0', files: { 'tiny_b.py': 'Y = 41\n' } });
    const files = { 'tiny_a/__init__.py': 'import tiny_b\nX = tiny_b.Y + 1\n', 'tiny_a/data.txt': 'words\n' };
    await makeWheel(wheels, 'tiny-a', { version: '1.2.0', files, requires: ['tiny-b>=2'] });
    await makeWheel(wheels, 'evil');
    const engine = executor === 'container' ? { engine: await sharedEngineWithImage() } : {};
    const redis = storage === 'redis' ? await RedisServer.start() : undefined;
    onTestFinished(() => redis?.remove());
    const cell = new Cell(combination, {
      folder,
      index: await startIndex(wheels),
      executor: { executor, startTimeoutMs: FIRST_START_MS, ...engine },
      redis,
    });
    onTestFinished(() => cell.#close());
    return cell;
  }

  /** Another instance of the one storage of this cell. */
  async openStorage(): Promise<Storage> {
    const storage = this.#redis
      ? await RedisStorage.open(this.#redis.url, { prefix: this.#prefix })
      : await FileStorage.open(join(this.#folder, 'storage'));
    this.#closing.push(storage);
    return storage;
  }

  /** Of an agent of its own, on an instance of the storage of its own, unless told otherwise. */
  async openSession(options: SessionOptions = {}): Promise<Session> {
    this.#agents += 1;
    const session = await Session.open({
      ...this.#executor,
      agentKey: `agent-${this.#agents}`,
      dataDir: this.dataDir,
      packages: { index: this.index.url },
      storage: options.storage ?? (await this.openStorage()),
      ...options,
    });
    this.#sessions.push(session);
    return session;
  }

  /** A data folder with nothing in it but what kernels start from, as another machine has one. */
  newDataDir(): string {
    this.#agents += 1;
    return dataFolder(join(this.#folder, `data-${this.#agents}`));
  }

  /** Another index, which nobody has configured: its requests tell who was led astray. */
  async startOtherIndex(): Promise<PackageIndex> {
    const folder = join(this.#folder, 'other');
    for (const name of ['tiny-a', 'tiny-b', 'late']) await makeWheel(folder, name, { version: '9.9.9' });
    const index = await startIndex(folder);
    this.#closing.push(index);
    return index;
  }

  async #close(): Promise<void> {
    await Promise.all(this.#sessions.map((session) => session.close()));
    await Promise.all(this.#closing.map((each) => each.close()));
    await this.index.close();
    await shutdown();
  }
}

const wheelsIn = (folder: string): string => join(folder, 'wheels');

/** What kernels start from is the same for all cells, and is no part of what they prove. */
function dataFolder(path: string): string {
  mkdirSync(path, { mode: 0o711 });
  return shareCache(path);
}
