/** Storages of texts and artifacts in memory, for tests of what stands above them. */

import { createHash } from 'node:crypto';
import type { ArtifactFacts, ArtifactInfo } from '../../../src/protocol/namespace-models.ts';
import type {
  ArtifactReader,
  ArtifactStore,
  ArtifactWriter,
  Page,
  StoredText,
  TextStore,
} from '../../../src/storage/contract.ts';

const byName = (a: { name: string }, b: { name: string }): number => (a.name < b.name ? -1 : 1);

export class MemoryTexts implements TextStore {
  readonly #texts = new Map<string, StoredText>();
  #version = 0;

  async list(): Promise<StoredText[]> {
    return [...this.#texts.values()].sort(byName);
  }

  async get(name: string): Promise<StoredText | undefined> {
    return this.#texts.get(name);
  }

  async put(name: string, text: string, options: { readonly ifAbsent?: boolean } = {}): Promise<boolean> {
    if (options.ifAbsent && this.#texts.has(name)) return false;
    this.#texts.set(name, { name, text, updatedAt: ++this.#version, where: `memory:${name}` });
    return true;
  }

  async delete(name: string): Promise<boolean> {
    this.#version++;
    return this.#texts.delete(name);
  }

  async version(): Promise<string> {
    return String(this.#version);
  }

  async holds(count: number): Promise<boolean> {
    return this.#texts.size >= count;
  }
}

export class MemoryArtifacts implements ArtifactStore {
  readonly #kept = new Map<string, { info: ArtifactInfo; bytes: Buffer }>();
  /** Writers and readers that nobody has closed yet. */
  unclosed = 0;

  async begin(name: string): Promise<ArtifactWriter> {
    const parts: Uint8Array[] = [];
    let ended = false;
    this.unclosed++;
    const end = (): void => {
      if (!ended) this.unclosed--;
      ended = true;
    };
    const abort = async (): Promise<void> => end();
    return {
      write: async (bytes) => void parts.push(Uint8Array.from(bytes)),
      finish: async (facts) => {
        end();
        return this.#keep(name, Buffer.concat(parts), facts);
      },
      abort,
      [Symbol.asyncDispose]: abort,
    };
  }

  #keep(name: string, bytes: Buffer, facts: ArtifactFacts): ArtifactInfo {
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    const createdAt = this.#kept.get(name)?.info.createdAt ?? 1;
    const info = { ...facts, name, size: bytes.length, sha256, createdAt, updatedAt: createdAt + 1 };
    this.#kept.set(name, { info, bytes });
    return info;
  }

  async get(name: string): Promise<ArtifactInfo | undefined> {
    return this.#kept.get(name)?.info;
  }

  async list({ after = '', limit, enough = Infinity }: Page = {}): Promise<ArtifactInfo[]> {
    const all = [...this.#kept.values()].map(({ info }) => info).sort(byName);
    let length = 0;
    return all
      .filter(({ name }) => name > after)
      .slice(0, limit)
      .filter((info) => {
        const fits = length < enough;
        length += JSON.stringify(info).length;
        return fits;
      });
  }

  async holds(count: number): Promise<boolean> {
    return this.#kept.size >= count;
  }

  async open(name: string): Promise<ArtifactReader | undefined> {
    const kept = this.#kept.get(name);
    if (kept === undefined) return undefined;
    let closed = false;
    this.unclosed++;
    return {
      info: kept.info,
      read: async (offset, length) => Uint8Array.from(kept.bytes.subarray(offset, offset + length)),
      [Symbol.asyncDispose]: async () => {
        if (!closed) this.unclosed--;
        closed = true;
      },
    };
  }

  async delete(name: string): Promise<boolean> {
    return this.#kept.delete(name);
  }

  async unlistedBytes(): Promise<number> {
    return 0;
  }
}
