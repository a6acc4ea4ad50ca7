/** Reads the body of a request, up to a limit: what is longer is refused before it is in memory. */

import { CellaError } from '../../protocol/errors.ts';

export async function readText(request: Request, limitBytes: number): Promise<string> {
  const announced = request.headers.get('content-length');
  if (announced !== null && !request.headers.has('transfer-encoding')) {
    // Node reads no further than what was announced.
    if (Number(announced) > limitBytes) throw tooLarge(limitBytes);
    return await request.text();
  }
  if (!request.body) return '';
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of request.body) {
    size += chunk.byteLength;
    if (size > limitBytes) throw tooLarge(limitBytes);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Undefined where there is no body. */
export async function readJson(request: Request, limitBytes: number): Promise<unknown> {
  const text = await readText(request, limitBytes);
  if (text === '') return undefined;
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new CellaError('INVALID_REQUEST', 'The body is no JSON.', { cause });
  }
}

/** At least 1: what is not announced is something. */
export function announcedBytes(contentLength: string | undefined): number {
  return Math.max(1, Number(contentLength ?? 1) || 1);
}

function tooLarge(limitBytes: number): CellaError {
  return new CellaError('TOO_LARGE', `The body is larger than ${limitBytes} bytes.`, { details: { limitBytes } });
}
