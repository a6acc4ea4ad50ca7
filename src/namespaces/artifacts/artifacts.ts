/** The artifacts of a storage: bytes of any size by name, for host callers and for kernels. */

import { SerialQueue } from '../../lib/queues.ts';
import { CellaError } from '../../protocol/errors.ts';
import { type ArtifactFacts, type ArtifactInfo, checkName } from '../../protocol/namespace-models.ts';
import type { ArtifactReader, ArtifactStore, ArtifactWriter, Page } from '../../storage/contract.ts';
import type { HostMethods } from '../host-methods.ts';
import { checkCountLimit, DEFAULT_MAX_COUNT } from '../namespace-limits.ts';
import { checkNewFacts } from './artifact-facts.ts';
import { ArtifactHandles, artifactMethods } from './artifact-handles.ts';

export interface ArtifactsOptions {
  readonly store: ArtifactStore;
  /** Of one artifact. */
  readonly limitBytes?: number;
  /** How many there may be. */
  readonly most?: number | undefined;
}

/** `type` and `mediaType` are needed; the rest may be left out. */
export type NewArtifactFacts = Pick<ArtifactFacts, 'type' | 'mediaType'> & Partial<ArtifactFacts>;

/** An artifact that is being read. The end of `chunks` closes it, and so does disposing of it. */
export interface LoadedArtifact extends AsyncDisposable {
  readonly info: ArtifactInfo;
  readonly chunks: AsyncIterable<Uint8Array>;
}

const PIECE_BYTES = 1024 * 1024;

export class Artifacts {
  readonly #store: ArtifactStore;
  readonly #limitBytes: number;
  readonly #most: number;

  constructor({ store, limitBytes = 1024 ** 3, most = DEFAULT_MAX_COUNT }: ArtifactsOptions) {
    this.#most = most;
    this.#store = store;
    this.#limitBytes = limitBytes;
  }

  /** In place of what has the name; all of it, or nothing. */
  async save(
    name: string,
    content: Uint8Array | AsyncIterable<Uint8Array>,
    facts: NewArtifactFacts,
  ): Promise<ArtifactInfo> {
    const checked = checkNewFacts(facts);
    await using writer = await this.begin(name);
    if (content instanceof Uint8Array) await writer.write(content);
    else for await (const bytes of content) await writer.write(bytes);
    return await writer.finish(checked);
  }

  /** In pieces, so that one of any size takes little memory. */
  async load(name: string): Promise<LoadedArtifact> {
    const reader = await this.open(name);
    return { info: reader.info, chunks: piecesOf(reader), [Symbol.asyncDispose]: () => reader[Symbol.asyncDispose]() };
  }

  async get(name: string): Promise<ArtifactInfo> {
    const checked = checkName(name, 'artifact');
    const info = await this.#store.get(checked);
    if (info === undefined) throw notFound(checked);
    return info;
  }

  async exists(name: string): Promise<boolean> {
    return (await this.#store.get(checkName(name, 'artifact'))) !== undefined;
  }

  /** By name: all, or a page. */
  list(page?: Page): Promise<ArtifactInfo[]> {
    return this.#store.list(page);
  }

  async delete(name: string): Promise<void> {
    const checked = checkName(name, 'artifact');
    if (!(await this.#store.delete(checked))) throw notFound(checked);
  }

  async begin(name: string): Promise<BoundedWriter> {
    const checked = checkName(name, 'artifact');
    await checkCountLimit({
      what: 'artifacts',
      most: this.#most,
      holds: (count) => this.#store.holds(count),
      replaces: async () => (await this.#store.get(checked)) !== undefined,
    });
    return new BoundedWriter(checked, await this.#store.begin(checked), this.#limitBytes);
  }

  async open(name: string): Promise<ArtifactReader> {
    const checked = checkName(name, 'artifact');
    const reader = await this.#store.open(checked);
    if (reader === undefined) throw notFound(checked);
    return reader;
  }

  /** For the code of one kernel: its handles are its own, and end with `closeAll`. */
  methods(): { readonly methods: HostMethods; closeAll(): Promise<void> } {
    const handles = new ArtifactHandles();
    return { methods: artifactMethods(this, handles), closeAll: () => handles.closeAll() };
  }
}

async function* piecesOf(reader: ArtifactReader): AsyncGenerator<Uint8Array, void, undefined> {
  await using open = reader;
  for (let offset = 0; offset < open.info.size; ) {
    const bytes = await open.read(offset, PIECE_BYTES);
    if (bytes.length === 0) return;
    offset += bytes.length;
    yield bytes;
  }
}

function notFound(name: string): CellaError {
  return new CellaError('ARTIFACT_NOT_FOUND', `There is no artifact named ${JSON.stringify(name)}.`, {
    details: { name },
  });
}

/** Writes one artifact, in order and within the size limit. */
export class BoundedWriter implements ArtifactWriter {
  readonly #name: string;
  readonly #writer: ArtifactWriter;
  readonly #limitBytes: number;
  #written = 0;
  /** Those who write at once wait for each other: the bytes lie in the order of the calls. */
  readonly #queue = new SerialQueue();
  #failure: unknown;

  constructor(name: string, writer: ArtifactWriter, limitBytes: number) {
    this.#name = name;
    this.#writer = writer;
    this.#limitBytes = limitBytes;
  }

  write(bytes: Uint8Array): Promise<void> {
    this.#written += bytes.length;
    const tooLarge = this.#written > this.#limitBytes;
    return this.#next(async () => {
      if (tooLarge) {
        await this.#writer.abort();
        throw this.#tooLarge();
      }
      await this.#writer.write(bytes);
    });
  }

  finish(facts: ArtifactFacts): Promise<ArtifactInfo> {
    return this.#next(() => this.#writer.finish(facts));
  }

  abort(): Promise<void> {
    return this.#queue.run(() => this.#writer.abort());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.abort();
  }

  /** After a failure nothing more is written: the artifact must not have a gap. */
  #next<T>(work: () => Promise<T>): Promise<T> {
    return this.#queue.run(async () => {
      if (this.#failure !== undefined) throw this.#failure;
      try {
        return await work();
      } catch (error) {
        this.#failure = error;
        throw error;
      }
    });
  }

  #tooLarge(): CellaError {
    const message = `The artifact ${JSON.stringify(this.#name)} is larger than the limit of ${this.#limitBytes} bytes.`;
    return new CellaError('ARTIFACT_TOO_LARGE', message, {
      details: { name: this.#name, limitBytes: this.#limitBytes },
    });
  }
}
