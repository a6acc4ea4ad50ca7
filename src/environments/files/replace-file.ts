/** Writes a file whole: what had its name before stays until the last byte is there, and a link is replaced, not followed. */

import { CellaError } from '../../protocol/errors.ts';
import type { FileInfo, Files } from './files.ts';

export interface Content {
  readonly chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
  readonly limitBytes?: number;
}

export async function replaceFile(
  files: Files,
  path: string,
  { chunks, limitBytes = Number.MAX_SAFE_INTEGER }: Content,
): Promise<FileInfo> {
  const made = await files.create(path);
  try {
    let size = 0;
    for await (const chunk of chunks) {
      size += chunk.byteLength;
      if (size > limitBytes) {
        throw new CellaError('TOO_LARGE', `The file is larger than ${limitBytes} bytes.`, { details: { limitBytes } });
      }
      await made.file.writeFile(chunk);
    }
  } catch (error) {
    await made.discard().catch(() => {}); // the first failure is the one to tell
    throw error;
  }
  return await made.commit();
}
