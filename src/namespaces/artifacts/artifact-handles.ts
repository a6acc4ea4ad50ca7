/** Checks the facts of a new artifact, and keeps the artifacts that one kernel has open, by handle. */

import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import { ArtifactFacts, type ArtifactInfo } from '../../protocol/namespace-models.ts';
import { describeProblems } from '../../protocol/parse.ts';
import type { PyValue } from '../../protocol/py-values.ts';
import type { ArtifactReader, ArtifactWriter, Page } from '../../storage/contract.ts';
import { type HostMethods, hostMethod, MAX_PAGE_CHARACTERS, PageRequest, toPage } from '../host-methods.ts';

const MOST_METADATA_BYTES = 64 * 1024;

/** The most object keys and list items in total. */
const MOST_METADATA_PARTS = 1000;

export function checkNewFacts(given: { readonly metadata?: unknown } & Record<string, unknown>): ArtifactFacts {
  if (countParts(given.metadata) > MOST_METADATA_PARTS) {
    throw invalidArtifact(
      `its metadata has more than ${MOST_METADATA_PARTS} keys and items. Save them as another artifact`,
    );
  }
  const parsed = ArtifactFacts.safeParse(given);
  if (!parsed.success) throw invalidArtifact(describeIssue(parsed.error));
  const bytes = Buffer.byteLength(JSON.stringify(parsed.data.metadata));
  if (bytes > MOST_METADATA_BYTES) {
    throw invalidArtifact(`its metadata has ${bytes} bytes as JSON; the limit is ${MOST_METADATA_BYTES}`);
  }
  return parsed.data;
}

/** Stops at the limits. A schema would check everything first. */
function countParts(value: unknown): number {
  const open = [value];
  let parts = 0;
  while (open.length > 0 && parts <= MOST_METADATA_PARTS) {
    const one = open.pop();
    if (typeof one !== 'object' || one === null || one instanceof Uint8Array) continue;
    const inner = Object.values(one);
    parts += inner.length;
    if (parts <= MOST_METADATA_PARTS) open.push(...inner);
  }
  return parts;
}

function describeIssue(error: z.ZodError): string {
  const path = error.issues[0]?.path ?? [];
  if (path[0] === 'metadata') return `its metadata must be a JSON object; \`${path.join('.')}\` is not JSON`;
  return describeProblems(error).join('; ');
}

function invalidArtifact(reason: string): CellaError {
  return new CellaError('ARTIFACT_INVALID', `The artifact cannot be saved: ${reason}.`, { details: { reason } });
}

type OpenArtifact =
  | { readonly kind: 'writing'; readonly writer: ArtifactWriter }
  | { readonly kind: 'reading'; readonly reader: ArtifactReader };

const MOST_OPEN = 64;

export class ArtifactHandles {
  readonly #open = new Map<number, OpenArtifact>();
  #last = 0;
  /** Artifacts that are being opened. They count, so that many opens at once keep the limit. */
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
    throw unknownHandle(handle, 'written');
  }

  reader(handle: number): ArtifactReader {
    const open = this.#open.get(handle);
    if (open?.kind === 'reading') return open.reader;
    throw unknownHandle(handle, 'read');
  }

  /** Closes the artifact, and drops an unfinished write. May be called again. */
  async close(handle: number): Promise<void> {
    const open = this.#open.get(handle);
    this.#open.delete(handle);
    if (open !== undefined) await (open.kind === 'writing' ? open.writer : open.reader)[Symbol.asyncDispose]();
  }

  /** Closes all artifacts and refuses further opens. If closing one fails, the others are still closed. */
  async closeAll(): Promise<void> {
    this.#closed = true;
    const ended = await Promise.allSettled([...this.#open.keys()].map((handle) => this.close(handle)));
    const failed = ended.find((end) => end.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
  }

  async #add<T extends AsyncDisposable>(make: () => Promise<T>, as: (part: T) => OpenArtifact): Promise<[number, T]> {
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
      const message = `${MOST_OPEN} artifacts are already open. Close some of them first.`;
      throw new CellaError('ARTIFACT_INVALID', message, { details: { limit: MOST_OPEN } });
    }
  }
}

function unknownHandle(handle: number, verb: string): CellaError {
  return new CellaError('ARTIFACT_INVALID', `No artifact is being ${verb} with the handle ${handle}.`, {
    details: { handle },
  });
}

interface ArtifactCalls {
  begin(name: string): Promise<ArtifactWriter>;
  open(name: string): Promise<ArtifactReader>;
  get(name: string): Promise<ArtifactInfo>;
  list(page: Page): Promise<ArtifactInfo[]>;
  delete(name: string): Promise<void>;
}

const MOST_BYTES = 8 * 1024 * 1024;

const Named = z.strictObject({ name: z.string() });
const Handle = z.strictObject({ handle: z.int() });
const Write = Handle.extend({
  data: z.instanceof(Uint8Array).refine((data) => data.length <= MOST_BYTES, `at most ${MOST_BYTES} bytes at a time`),
});
const Finish = Handle.extend({
  type: z.unknown(),
  mediaType: z.unknown(),
  description: z.unknown().optional(),
  metadata: z.unknown().optional(),
});
const Read = Handle.extend({ offset: z.int().min(0), length: z.int().min(0).max(MOST_BYTES) });

export function artifactMethods(artifacts: ArtifactCalls, handles: ArtifactHandles): HostMethods {
  const close = hostMethod(Handle, async ({ handle }) => {
    await handles.close(handle);
    return null;
  });
  return {
    'artifacts.begin': hostMethod(Named, async ({ name }) => {
      return (await handles.addWriter(() => artifacts.begin(name))).handle;
    }),
    'artifacts.write': hostMethod(Write, async ({ handle, data }) => {
      await handles.writer(handle).write(data);
      return null;
    }),
    'artifacts.finish': hostMethod(Finish, async ({ handle, description, metadata, ...facts }) => {
      const writer = handles.writer(handle);
      try {
        const checked = checkNewFacts({ ...facts, description: description ?? '', metadata: metadata ?? {} });
        return toPyInfo(await writer.finish(checked));
      } finally {
        await handles.close(handle);
      }
    }),
    'artifacts.abort': close,
    'artifacts.get': hostMethod(Named, async ({ name }) => toPyInfo(await artifacts.get(name))),
    'artifacts.list': hostMethod(PageRequest, async (page) => {
      const infos = await artifacts.list({ ...page, enough: MAX_PAGE_CHARACTERS });
      return await toPage(infos, toPyInfo, page.limit);
    }),
    'artifacts.open': hostMethod(Named, async ({ name }) => {
      const { handle, reader } = await handles.addReader(() => artifacts.open(name));
      return { handle, info: toPyInfo(reader.info) };
    }),
    'artifacts.read': hostMethod(Read, async ({ handle, offset, length }) => {
      return await handles.reader(handle).read(offset, length);
    }),
    'artifacts.close': close,
    'artifacts.delete': hostMethod(Named, async ({ name }) => {
      await artifacts.delete(name);
      return null;
    }),
  };
}

function toPyInfo(info: ArtifactInfo): PyValue {
  return { ...info };
}
