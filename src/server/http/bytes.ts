/** Bytes as an answer: never shown by a browser as a page, whatever is in them. */

export interface BytesOptions {
  /** How many there will be, where that is known. */
  readonly bytes?: number;
  readonly name: string;
  readonly mediaType?: string;
  /** Ends the connection where reading fails half way. */
  readonly cut: () => void;
}

export function bytesResponse(chunks: AsyncIterable<Uint8Array>, options: BytesOptions): Response {
  const { bytes, name, mediaType = 'application/octet-stream' } = options;
  const headers = new Headers({
    'content-type': /^[\w.+-]+\/[\w.+-]+(; *charset=[\w-]+)?$/.test(mediaType) ? mediaType : 'application/octet-stream',
    'content-disposition': `attachment; filename*=UTF-8''${encodeURIComponent(name.toWellFormed())}`,
    // What a session has made must not act as a page of this server.
    'content-security-policy': "default-src 'none'; sandbox",
  });
  if (bytes !== undefined) headers.set('content-length', String(bytes));
  return new Response(toStream(exactly(chunks, bytes), options.cut), { headers });
}

/** A chunk is taken when the client has room for it. */
export function toStream(chunks: AsyncGenerator<Uint8Array>, cut: () => void): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller) {
      const next = await chunks.next().catch(() => undefined); // the client sees that it is cut
      if (!next) cut();
      else if (next.done) controller.close();
      else controller.enqueue(next.value);
    },
    cancel: async () => void (await chunks.return(undefined)),
  });
}

/** A file that grows while it is read is cut at what was announced. */
async function* exactly(chunks: AsyncIterable<Uint8Array>, bytes: number | undefined): AsyncGenerator<Uint8Array> {
  let left = bytes ?? Number.POSITIVE_INFINITY;
  // Read even where nothing is wanted of it: only what was begun is closed.
  for await (const chunk of chunks) {
    if (left <= 0) return;
    yield chunk.byteLength > left ? chunk.subarray(0, left) : chunk;
    left -= chunk.byteLength;
    if (left <= 0) return;
  }
}
