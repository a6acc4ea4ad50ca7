import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeFrame, type Frame, FrameDecoder, FrameError, FrameType, HEADER_BYTES } from './kernel-frames.ts';

const LARGEST = 4096;
const A = 'a'.charCodeAt(0);
const B = 'b'.charCodeAt(0);
const largest = new Map([
  [A, LARGEST],
  [B, 0],
]);

const frame = fc.oneof(
  fc.record({
    type: fc.constant(A),
    id: fc.nat(0xffffffff),
    payload: fc.uint8Array({ maxLength: 600 }).map((bytes) => Buffer.from(bytes)),
  }),
  fc.record({ type: fc.constant(B), id: fc.nat(0xffffffff), payload: fc.constant(Buffer.alloc(0)) }),
);

const encodeAll = (frames: readonly Frame[]) =>
  Buffer.concat(frames.map(({ type, id, payload }) => encodeFrame(type, id, payload)));

const plain = (frames: readonly Frame[]) =>
  frames.map(({ type, id, payload }) => ({ type, id, payload: payload.toString('hex') }));

/** The chunks that come of cutting `bytes` at every offset in `cuts`. */
function cut(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const offsets = [...new Set(cuts.map((at) => at % (bytes.length + 1)))].sort((one, other) => one - other);
  const ends = [...offsets, bytes.length];
  return ends.map((end, index) => bytes.subarray(index === 0 ? 0 : ends[index - 1], end));
}

describe('frames', () => {
  it('are decoded as they were encoded, however the stream is cut', () => {
    fc.assert(
      fc.property(fc.array(frame, { maxLength: 12 }), fc.array(fc.nat()), (frames, cuts) => {
        const decoder = new FrameDecoder(largest);
        const out = cut(encodeAll(frames), cuts).flatMap((chunk) => decoder.push(chunk));
        expect(plain(out)).toEqual(plain(frames));
      }),
    );
  });

  it('are complete if the stream is cut once, at every byte', () => {
    const frames = [
      { type: A, id: 1, payload: Buffer.from('one') },
      { type: B, id: 0xffffffff, payload: Buffer.alloc(0) },
      { type: A, id: 0, payload: Buffer.from('é', 'utf8') },
    ];
    const bytes = encodeAll(frames);
    for (let at = 0; at <= bytes.length; at++) {
      const decoder = new FrameDecoder(largest);
      const out = [...decoder.push(bytes.subarray(0, at)), ...decoder.push(bytes.subarray(at))];
      expect(plain(out)).toEqual(plain(frames));
    }
  });

  it('are complete if every chunk is one byte', () => {
    const frames = [0, 1, 2].map((id) => ({ type: A, id, payload: Buffer.alloc(id, 7) }));
    const decoder = new FrameDecoder(largest);
    const out = [...encodeAll(frames)].flatMap((byte) => decoder.push(Buffer.from([byte])));
    expect(plain(out)).toEqual(plain(frames));
  });

  it('without a payload are complete with their header', () => {
    const decoder = new FrameDecoder(largest);
    expect(plain(decoder.push(encodeFrame(B, 5)))).toEqual([{ type: B, id: 5, payload: '' }]);
    expect(decoder.push(Buffer.alloc(0))).toEqual([]);
    expect(plain(decoder.push(Buffer.concat([encodeFrame(B, 6), encodeFrame(A, 7)])))).toHaveLength(2);
  });

  it('can be as large as their type allows', () => {
    const decoder = new FrameDecoder(largest);
    expect(decoder.push(encodeFrame(A, 1, Buffer.alloc(LARGEST)))[0]?.payload.length).toBe(LARGEST);
  });

  it('with a length over that of their type are refused by the header', () => {
    for (const length of [LARGEST + 1, 0x7fffffff, 0xffffffff]) {
      const header = Buffer.alloc(HEADER_BYTES);
      header.writeUInt32LE(length, 0);
      header.writeUInt8(A, 4);
      expect(() => new FrameDecoder(largest).push(header)).toThrow(FrameError);
    }
    expect(() => new FrameDecoder(largest).push(encodeFrame(B, 1, 'x').subarray(0, HEADER_BYTES))).toThrow(FrameError);
  });

  it('of an unknown type are refused by the header, whatever their length', () => {
    fc.assert(
      fc.property(
        fc.nat(255).filter((type) => !largest.has(type)),
        fc.nat(0xffffffff),
        (type, length) => {
          const header = Buffer.alloc(HEADER_BYTES);
          header.writeUInt32LE(length, 0);
          header.writeUInt8(type, 4);
          expect(() => new FrameDecoder(largest).push(header)).toThrow(FrameError);
        },
      ),
    );
  });

  it('of any garbage are frames or a FrameError, never anything else', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 200 })), (chunks) => {
        const decoder = new FrameDecoder(largest);
        try {
          for (const chunk of chunks) decoder.push(Buffer.from(chunk));
        } catch (error) {
          expect(error).toBeInstanceOf(FrameError);
        }
      }),
    );
  });

  it('carry text as UTF-8', () => {
    expect(encodeFrame(A, 1, 'é😀').subarray(HEADER_BYTES).toString()).toBe('é😀');
  });
});

const constantCase = (name: string) => name.replaceAll(/[A-Z]/g, '_$&').toUpperCase();

describe('docs/internals/kernel-protocol.md', () => {
  it('has a row for every frame, by its letter and name, and for no other', () => {
    const page = readFileSync(new URL('../../docs/internals/kernel-protocol.md', import.meta.url), 'utf8');
    const rows = [...page.matchAll(/^\| `(\w)` ([A-Z_]+) \|/gm)].map(([, letter, name]) => `${letter} ${name}`);
    const frames = Object.entries(FrameType).map(
      ([name, type]) => `${String.fromCharCode(type)} ${constantCase(name)}`,
    );
    // Some go more than one way, and have a row for each.
    expect([...new Set(rows)].toSorted()).toEqual(frames.toSorted());
    expect(new Set(Object.values(FrameType)).size).toBe(frames.length);
  });
});
