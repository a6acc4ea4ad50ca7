/** What a runner sends, and the agent's program through it. */

import type { Target } from '../engine.ts';

export async function rpc(): Promise<Target> {
  const { LineDecoder } = await import('../../../src/protocol/rpc/lines.ts');
  const { parseMessage } = await import('../../../src/protocol/rpc/message.ts');
  return {
    name: 'rpc',
    parser: [{ file: 'protocol/rpc/lines.ts' }, { file: 'protocol/rpc/message.ts' }],
    words: [
      '"id":1',
      '"id":null',
      '"method":"x"',
      '"result":1',
      '"error":{"code":1,"message":""}',
      '\n',
      '{',
      '}',
      ',',
      '\xff',
    ],
    take: (input) => {
      const decoder = new LineDecoder(200);
      const cut = input.length >> 1;
      for (const chunk of [input.subarray(0, cut), input.subarray(cut)]) {
        for (const line of decoder.push(chunk)) if (line.kind === 'line') parseMessage(line.bytes);
      }
      if (decoder.heldBytes > 200) throw new Error('a line that is held although it is too long');
      const rest = decoder.end();
      if (rest?.kind === 'line') parseMessage(rest.bytes);
    },
  };
}
