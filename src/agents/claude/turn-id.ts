/** A turn's id as the uuid of its prompt in Claude's transcript, and back: so a reload finds the turns by their ids. */

const LETTERS = 36n ** 16n;

/** A UUID of version 8 has 122 bits of one's own; an id has 83. */
export function uuidOfTurn(turn: string): string {
  const value = [...turn.slice('trn_'.length)].reduce(
    (sum, letter) => sum * 36n + BigInt(Number.parseInt(letter, 36)),
    0n,
  );
  const low = hex(value & ((1n << 62n) - 1n), 16);
  const middle = hex((value >> 62n) & 0xfffn, 3);
  const high = hex(value >> 74n, 12);
  const variant = hex(BigInt(`0x${low[0]}`) | 8n, 1);
  return `${high.slice(0, 8)}-${high.slice(8)}-8${middle}-${variant}${low.slice(1, 4)}-${low.slice(4)}`;
}

/** Of a prompt that did not come from here too: the same id each time. */
export function turnOfUuid(uuid: string): string {
  const digits = uuid
    .replace(/[^0-9a-f]/gi, '')
    .padEnd(32, '0')
    .slice(0, 32);
  const bits = (from: number, to: number) => BigInt(`0x${digits.slice(from, to)}`);
  const value = (bits(0, 12) << 74n) | (bits(13, 16) << 62n) | (bits(16, 32) & ((1n << 62n) - 1n));
  return `trn_${(value % LETTERS).toString(36).padStart(16, '0')}`;
}

function hex(value: bigint, length: number): string {
  return value.toString(16).padStart(length, '0');
}
