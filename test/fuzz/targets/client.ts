/** What a client sends. */

import type { Target } from '../engine.ts';

const SCANNED = { mostDeep: 20, mostKeys: 20, mostEffort: 300 };

export async function websocket(): Promise<Target> {
  const { isLight, lightJsonOf } = await import('../../../src/protocol/light-json.ts');
  const { JsonScan } = await import('../../../src/protocol/json-scan.ts');
  const { ClientFrame, FrameId } = await import('../../../src/protocol/http/frames.ts');
  return {
    name: 'websocket',
    parser: [
      { file: 'protocol/json-scan.ts' },
      { file: 'protocol/light-json.ts' },
      { file: 'protocol/http/frames.ts' },
    ],
    words: [
      '"type":"ping"',
      '"id":1',
      '"code":"1"',
      '\\u00e9',
      '\\n',
      '-1.5e+3',
      'true',
      'null',
      '0',
      '[',
      ']',
      '{',
      '}',
      ',',
      ':',
      '"',
    ],
    take: (input) => {
      const text = input.toString();
      // Once as bodies are looked through, and once as the gateway follows an answer.
      const follower = {
        ...{ mostKept: 8, wantsKeys: true, begin: (kind: string) => kind === 'text', close: () => {} },
        key: (json: string) => json.length <= 8 && !json.includes('bad'),
        text: (json: string) => json.length <= 8,
      };
      for (const scan of [new JsonScan(SCANNED), new JsonScan(SCANNED, follower)]) {
        scan.push(input.subarray(0, input.length >> 1));
        scan.push(input.subarray(input.length >> 1));
        if (scan.effort < 0) throw new Error('an effort that is none');
        if (scan.end() && !scan.isTooMuch && scan.isObject) JSON.parse(input.toString('latin1'));
      }
      isLight(input.length % 64 === 63 ? Buffer.concat(Array(80).fill(Buffer.alloc(1024, input))) : input);
      const frame = lightJsonOf(text);
      ClientFrame.safeParse(frame);
      FrameId.safeParse(frame);
    },
  };
}
