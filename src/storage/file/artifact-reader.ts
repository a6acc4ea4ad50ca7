/** Reads one artifact. The file stays the one that was opened, whatever gets its name meanwhile. */

import type { FileHandle } from 'node:fs/promises';
import type { ArtifactInfo } from '../../protocol/namespace-models.ts';
import type { ArtifactReader } from '../contract.ts';
import { guarded } from './failure.ts';

export class FileArtifactReader implements ArtifactReader {
  readonly info: ArtifactInfo;
  readonly #file: FileHandle;

  constructor(info: ArtifactInfo, file: FileHandle) {
    this.info = info;
    this.#file = file;
  }

  read(offset: number, length: number): Promise<Uint8Array> {
    return guarded('read artifact', this.info.name, async () => {
      const bytes = new Uint8Array(Math.max(0, Math.min(length, this.info.size - offset)));
      for (let done = 0; done < bytes.length; ) {
        const { bytesRead } = await this.#file.read(bytes, done, bytes.length - done, offset + done);
        if (bytesRead === 0) return bytes.subarray(0, done);
        done += bytesRead;
      }
      return bytes;
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#file.close();
  }
}
