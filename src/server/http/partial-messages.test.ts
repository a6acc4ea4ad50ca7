import { expect, it } from 'vitest';
import { PartialMessages } from './partial-messages.ts';

const TEXT = 0x1;
const MORE = 0x0;
const PING = 0x9;

function frame(opcode: number, bytes: number, { last = true } = {}): Buffer {
  const length = Buffer.alloc(bytes < 126 ? 0 : bytes < 65_536 ? 2 : 8);
  if (length.length === 2) length.writeUInt16BE(bytes);
  if (length.length === 8) length.writeBigUInt64BE(BigInt(bytes));
  const short = [bytes, 0, 126, 0, 0, 0, 0, 0, 127][length.length] ?? 0;
  const head = Buffer.from([(last ? 0x80 : 0) | opcode, 0x80 | (length.length === 0 ? bytes : short)]);
  return Buffer.concat([head, length, Buffer.alloc(4 + bytes)]);
}

const begun = (opcode: number, bytes: number) => frame(opcode, bytes, { last: false });

it.each([0, 1, 125, 126, 65_535, 65_536, 200_000])('counts nothing for a complete message of %i bytes', (bytes) => {
  const messages = new PartialMessages();
  const all = Buffer.concat([frame(TEXT, bytes), frame(TEXT, 3)]);
  expect(messages.after(all)).toBe(0);
  const [first, rest] = [all.subarray(0, all.length / 2), all.subarray(all.length / 2)];
  expect(messages.after(first)).toBeGreaterThanOrEqual(first.length);
  expect(messages.after(rest)).toBe(0);
});

it('follows frames whose headers arrive byte by byte, each of which counts more', () => {
  const messages = new PartialMessages();
  const pieces = [...frame(TEXT, 300)].map((byte) => Buffer.from([byte]));
  const held = pieces.map((piece) => messages.after(piece));
  expect(held.at(-1)).toBe(0);
  expect(held.at(-2)).toBeGreaterThan(300 * 300);
});

it('counts the parts of a message until the last one, and control frames in between', () => {
  const messages = new PartialMessages();
  const parts = [begun(TEXT, 1000), frame(PING, 5), begun(MORE, 1000), begun(MORE, 0)];
  const held = parts.map((part) => messages.after(part));
  expect(held).toEqual([...held].sort((a, b) => a - b));
  expect(new Set(held).size).toBe(4);
  expect(messages.after(frame(MORE, 1000))).toBe(0);
  expect(messages.after(frame(PING, 5))).toBe(0);
});

it('counts the beginning of the next message after the end of another', () => {
  const messages = new PartialMessages();
  const before = messages.after(begun(TEXT, 100_000));
  const piece = Buffer.concat([frame(MORE, 10), begun(TEXT, 10)]);
  const after = messages.after(piece);
  expect(after).toBeGreaterThanOrEqual(piece.length);
  expect(after).toBeLessThan(before / 2);
});
