/** What the server reads of its own, of what others have made. */

import type { Target } from '../engine.ts';

const DEEP = 500;
/** However small it is, it is not done at once. */
const SLICES = -1;
/** More than a slice. */
const LONG = 70_000;
/** Such texts are for one input of so many. */
const SELDOM = 16;

/** Characters of a beginning. */
const FEW = 40;

/** JSON in slices: of a text that is JSON, else of a value as kernels send it, else what is no JSON at all. */
export async function pieces(): Promise<Target> {
  const { isJsonLonger, JsonPieces, jsonBeginning, jsonBytes, jsonText, toWireInSlices } = await import(
    '../../../src/protocol/json-pieces.ts'
  );
  const { parseOwnJson } = await import('../../../src/lib/own-json.ts');
  const { JsonScanner, tryParseJson } = await import('../../../src/lib/json-scanner.ts');
  const { FrameError } = await import('../../../src/protocol/kernel-frames.ts');
  const { decodeValue } = await import('../../../src/protocol/kernel-marshal.ts');
  const { valueToWire } = await import('../../../src/protocol/py-values.ts');

  const whole = (text: string | readonly Buffer[]) =>
    typeof text === 'string' ? text : Buffer.concat([...text]).toString();

  const same = async (value: unknown): Promise<void> => {
    const expected = JSON.stringify(value);
    const text = await jsonText(value, SLICES);
    if (whole(text) !== expected) throw new Error(`written otherwise: ${whole(text).slice(0, 200)}`);
    if (jsonBytes(text) !== Buffer.byteLength(expected)) throw new Error('counted otherwise');
    const begun = await jsonBeginning(value, FEW, SLICES);
    if (begun !== expected.slice(0, FEW + 1)) throw new Error(`begun otherwise: ${begun}`);
    if (isJsonLonger(value, FEW) !== expected.length > FEW) throw new Error('longer than it is');
    const back = await parseOwnJson(Buffer.from(expected), SLICES);
    if (JSON.stringify(back) !== expected) throw new Error(`read otherwise: ${JSON.stringify(back)?.slice(0, 200)}`);
  };

  const wired = async (input: Buffer): Promise<void> => {
    let value: ReturnType<typeof decodeValue>;
    try {
      value = decodeValue(input);
    } catch (error) {
      if (error instanceof FrameError) return;
      throw error;
    }
    const expected = JSON.stringify(valueToWire(value));
    const wire = await toWireInSlices(value, SLICES);
    if (!(wire instanceof JsonPieces)) throw new Error('not in slices');
    if (whole(wire.pieces) !== expected) throw new Error(`written otherwise: ${whole(wire.pieces).slice(0, 200)}`);
    if (JSON.stringify([wire]) !== `[${expected}]`) throw new Error('not what it stands for');
    const around = await jsonText({ wire, again: [wire] }, SLICES);
    if (whole(around) !== `{"wire":${expected},"again":[${expected}]}`) throw new Error('written otherwise in another');
  };

  return {
    name: 'pieces',
    parser: [{ file: 'protocol/json-pieces.ts' }, { file: 'lib/own-json.ts' }],
    words: [
      ...['[', ']', '{', '}', ',', ':', '"', '\\', '\\u00e9', '\\ud83d', '\\ud83d\\udc80', '\\n', '\\"', '-1.5e+3'],
      ...['true', 'null', '0', '"__proto__":', '"toJSON":', '"a":', '[]', '{}', '\xf0\x9f\x98\x80', '\xed\xa0\x80'],
      ...['N', 'i\x01\0\0\0', 'g\0\0\0\0\0\0\xf8\x7f', 's\x03\0\0\0abc', 'u\x02\0\0\0$a', '[\x02\0\0\0'],
    ],
    take: async (input) => {
      const scan = new JsonScanner({ mostDeep: DEEP, mostKeys: 20_000 });
      scan.push(input);
      if (scan.isTooMuch) return;
      const text = input.toString();
      const value = scan.end() ? tryParseJson(text) : undefined;
      if (value !== undefined) {
        await same(value);
        if (input.length % SELDOM === 0) await same({ [text]: text.repeat(Math.ceil(LONG / text.length)), value });
        return;
      }
      await wired(input);
      // Nobody writes such a text. It has an end all the same.
      await parseOwnJson(Buffer.from(input), SLICES).catch((error: unknown) => {
        if (!(error instanceof SyntaxError)) throw error;
      });
    },
  };
}

/** Frames of WebSockets whose messages are not complete: what is held of them is the same wherever they are cut. */
export async function sockets(): Promise<Target> {
  const { PartialMessages } = await import('../../../src/server/http/partial-messages.ts');

  /** What is open after all of it, by a reader of whole frames. */
  const isOpen = (bytes: Buffer): boolean => {
    let within = false;
    for (let at = 0; at < bytes.length; ) {
      const [first = 0, second = 0] = bytes.subarray(at, at + 2);
      const short = second & 0x7f;
      const head = 2 + (short === 127 ? 8 : short === 126 ? 2 : 0) + (second & 0x80 ? 4 : 0);
      if (at + head > bytes.length) return true;
      const length =
        short === 127 ? Number(bytes.readBigUInt64BE(at + 2)) : short === 126 ? bytes.readUInt16BE(at + 2) : short;
      at += head + length;
      if (at > bytes.length) return true;
      if ((first & 0x0f) < 8) within = (first & 0x80) === 0;
    }
    return within;
  };

  return {
    name: 'sockets',
    parser: [{ file: 'server/http/partial-messages.ts', functions: ['after', '#isHead', '#endFrame'] }],
    words: [
      ...['\x81\x80abcd', '\x01\x80abcd', '\x80\x80abcd', '\x89\x00', '\x8a\x81abcdx', '\x81\xfe\x00\x7eabcd'],
      ...['\x01\x02hi', '\x80\x00', '\x82\xff\0\0\0\0\0\x01\0\0abcd', '\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff'],
    ],
    take: (input) => {
      const [whole, cut] = [new PartialMessages(), new PartialMessages()];
      const held = whole.after(input);
      const size = 1 + (input.length % 13);
      let heldCut = 0;
      for (let at = 0; at < input.length; at += size) heldCut = cut.after(input.subarray(at, at + size));
      const open = isOpen(input);
      if (held > 0 !== open || heldCut > 0 !== open) throw new Error(`open or not: ${[held, heldCut, open]}`);
    },
  };
}
