/** The artifacts of a storage: bytes of any size by name, for host callers and for kernels. */

import { CellaError } from '../../protocol/errors.ts';
import { type ArtifactFacts, type ArtifactInfo, checkName } from '../../protocol/namespace-models.ts';
import type { ArtifactReader, ArtifactStore, ArtifactWriter, Page } from '../../storage/contract.ts';
import { checkCountLimit, DEFAULT_MAX_COUNT, type HostMethods, MAX_PAGE_CHARACTERS } from '../host-methods.ts';
import { ArtifactHandles, artifactMethods, checkNewFacts } from './artifact-handles.ts';

interface ArtifactsOptions {
  readonly store: ArtifactStore;
  /** The most bytes of one artifact. */
  readonly limitBytes?: number;
  /** The most artifacts. */
  readonly most?: number | undefined;
}

/** `type` and `mediaType` are required; the rest is optional. */
type NewArtifactFacts = Pick<ArtifactFacts, 'type' | 'mediaType'> & Partial<ArtifactFacts>;

/** An artifact that is being read. It is closed at the end of `chunks`, or when disposed. */
interface LoadedArtifact extends AsyncDisposable {
  readonly info: ArtifactInfo;
  readonly chunks: AsyncIterable<Uint8Array>;
}

const PIECE_BYTES = 1024 * 1024;

/** All of them, sorted by name. Their descriptions and metadata together may be more than memory holds. */
export async function* everyArtifact(artifacts: {
  list(page: Page): Promise<readonly ArtifactInfo[]>;
}): AsyncGenerator<ArtifactInfo, void, undefined> {
  for (let after = ''; ; ) {
    const some = await artifacts.list({ after, enough: MAX_PAGE_CHARACTERS });
    yield* some;
    const last = some.at(-1);
    if (!last) return;
    after = last.name;
  }
}

export class Artifacts {
  readonly #store: ArtifactStore;
  readonly #limitBytes: number;
  readonly #most: number;

  constructor({ store, limitBytes = 1024 ** 3, most = DEFAULT_MAX_COUNT }: ArtifactsOptions) {
    this.#most = most;
    this.#store = store;
    this.#limitBytes = limitBytes;
  }

  /** Saves an artifact atomically, and replaces one that has the name. */
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

  /** Loads an artifact in chunks, so that any size takes little memory. */
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

  /** All artifacts or one page, sorted by name. */
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

  /** For the code of one kernel, with its own handles. `closeAll` closes them. */
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

/** Writes one artifact within the size limit. The writer of the store orders the writes, and refuses all after a failed one. */
class BoundedWriter implements ArtifactWriter {
  readonly #name: string;
  readonly #writer: ArtifactWriter;
  readonly #limitBytes: number;
  #written = 0;

  constructor(name: string, writer: ArtifactWriter, limitBytes: number) {
    this.#name = name;
    this.#writer = writer;
    this.#limitBytes = limitBytes;
  }

  write(bytes: Uint8Array): Promise<void> {
    this.#written += bytes.length;
    return this.#next(() => this.#writer.write(bytes));
  }

  finish(facts: ArtifactFacts): Promise<ArtifactInfo> {
    return this.#next(() => this.#writer.finish(facts));
  }

  abort(): Promise<void> {
    return this.#writer.abort();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.abort();
  }

  async #next<T>(work: () => Promise<T>): Promise<T> {
    if (this.#written <= this.#limitBytes) return await work();
    await this.#writer.abort();
    const message = `The artifact ${JSON.stringify(this.#name)} is larger than the limit of ${this.#limitBytes} bytes.`;
    throw new CellaError('ARTIFACT_TOO_LARGE', message, {
      details: { name: this.#name, limitBytes: this.#limitBytes },
    });
  }
}
