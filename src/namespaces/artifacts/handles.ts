/** The artifacts that one kernel has open, by number. Another kernel's numbers mean nothing here. */

import { CellaError } from '../../protocol/errors.ts';
import type { ArtifactReader, ArtifactWriter } from '../../storage/contract.ts';

type Open =
  | { readonly kind: 'writing'; readonly writer: ArtifactWriter }
  | { readonly kind: 'reading'; readonly reader: ArtifactReader };

const MOST_OPEN = 64;

export class Handles {
  readonly #open = new Map<number, Open>();
  #last = 0;
  /** Being opened, and counted already: many at once keep to the limit too. */
  #coming = 0;
  #closed = false;

  addWriter(begin: () => Promise<ArtifactWriter>): Promise<{ handle: number; writer: ArtifactWriter }> {
    return this.#add(begin, (writer) => ({ kind: 'writing', writer })).then(([handle, writer]) => ({ handle, writer }));
  }

  addReader(open: () => Promise<ArtifactReader>): Promise<{ handle: number; reader: ArtifactReader }> {
    return this.#add(open, (reader) => ({ kind: 'reading', reader })).then(([handle, reader]) => ({ handle, reader }));
  }

  writer(handle: number): ArtifactWriter {
    const open = this.#open.get(handle);
    if (open?.kind === 'writing') return open.writer;
    throw unknown(handle, 'written');
  }

  reader(handle: number): ArtifactReader {
    const open = this.#open.get(handle);
    if (open?.kind === 'reading') return open.reader;
    throw unknown(handle, 'read');
  }

  /** Does nothing where it is closed already. What is being written is dropped. */
  async close(handle: number): Promise<void> {
    const open = this.#open.get(handle);
    this.#open.delete(handle);
    if (open !== undefined) await partOf(open)[Symbol.asyncDispose]();
  }

  /** Nothing can be opened from here on. One that cannot be closed does not keep the others open. */
  async closeAll(): Promise<void> {
    this.#closed = true;
    const ended = await Promise.allSettled([...this.#open.keys()].map((handle) => this.close(handle)));
    const failed = ended.find((end) => end.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
  }

  async #add<T extends AsyncDisposable>(make: () => Promise<T>, as: (part: T) => Open): Promise<[number, T]> {
    this.#check();
    this.#coming++;
    try {
      const part = await make();
      if (this.#closed) await part[Symbol.asyncDispose]();
      this.#check({ room: false });
      const handle = ++this.#last;
      this.#open.set(handle, as(part));
      return [handle, part];
    } finally {
      this.#coming--;
    }
  }

  #check({ room = true } = {}): void {
    if (this.#closed) throw new CellaError('SESSION_CLOSED', 'The kernel that opens an artifact has ended.');
    if (room && this.#open.size + this.#coming >= MOST_OPEN) {
      const message = `${MOST_OPEN} artifacts are open already. Close some of them first.`;
      throw new CellaError('ARTIFACT_INVALID', message, { details: { limit: MOST_OPEN } });
    }
  }
}

function partOf(open: Open): AsyncDisposable {
  return open.kind === 'writing' ? open.writer : open.reader;
}

function unknown(handle: number, verb: string): CellaError {
  return new CellaError('ARTIFACT_INVALID', `No artifact is being ${verb} with the handle ${handle}.`, {
    details: { handle },
  });
}
