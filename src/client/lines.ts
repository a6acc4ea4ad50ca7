/** Lines of JSON from an answer, as they come. Whoever stops reading closes the connection. */

import { jsonOf } from '../protocol/json-text.ts';

export async function* jsonLines(response: Response): AsyncGenerator<unknown, void, undefined> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of chunksOf(response)) {
    // A line that is long comes in many parts: they are looked through once.
    const text = decoder.decode(chunk, { stream: true });
    if (!text.includes('\n')) {
      rest += text;
      continue;
    }
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    // An empty one is a sign of life.
    for (const line of lines) if (line !== '') yield jsonOf(line);
  }
}

/** Not every browser lets one iterate over a body. */
export async function* chunksOf(response: Response): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = response.body?.getReader();
  if (!reader) return;
  try {
    while (true) {
      const { value, done } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => {}); // it has broken already
  }
}
