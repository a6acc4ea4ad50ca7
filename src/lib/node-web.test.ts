import { expect, it } from 'vitest';
import { toStream } from './node-web.ts';

it('closes the source of the chunks, even if nobody has requested a chunk', async () => {
  let closed = false;
  async function* chunks() {
    try {
      yield new Uint8Array(1);
    } finally {
      closed = true;
    }
  }
  await toStream(chunks(), () => {}).cancel();
  expect(closed).toBe(true);
});
