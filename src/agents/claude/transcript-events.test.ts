import fc from 'fast-check';
import { expect, test } from 'vitest';
import { turnOfUuid, uuidOfTurn } from './transcript-events.ts';

const turns = fc
  .array(fc.constantFrom(...'0123456789abcdefghijklmnopqrstuvwxyz'), { minLength: 16, maxLength: 16 })
  .map((letters) => `trn_${letters.join('')}`);

test('every id of a turn comes back from its uuid', () => {
  fc.assert(
    fc.property(turns, (turn) => {
      const uuid = uuidOfTurn(turn);
      expect(uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      expect(turnOfUuid(uuid)).toBe(turn);
    }),
  );
});

test('a uuid from elsewhere gives the id of a turn, and always the same', () => {
  fc.assert(
    fc.property(fc.oneof(fc.uuid(), fc.string()), (uuid) => {
      expect(turnOfUuid(uuid)).toMatch(/^trn_[0-9a-z]{16}$/);
      expect(turnOfUuid(uuid)).toBe(turnOfUuid(uuid));
    }),
  );
});
