import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { boundHistory, HISTORY_CELLS, HISTORY_CHARACTERS } from './session-record.ts';

describe('the history of a record', () => {
  it('keeps the newest cells that fit', () => {
    const anyHistory = fc.array(fc.nat({ max: HISTORY_CHARACTERS }), { maxLength: 40 });
    fc.assert(
      fc.property(anyHistory, (lengths) => {
        const history = lengths.map((length) => ({ code: 'x'.repeat(length) }));
        const kept = boundHistory(history);
        expect(kept).toEqual(history.slice(history.length - kept.length));
        const characters = kept.reduce((sum, { code }) => sum + code.length, 0);
        if (kept.length > 1) expect(characters).toBeLessThanOrEqual(HISTORY_CHARACTERS);
        const next = history.at(-kept.length - 1);
        if (next) expect(characters + next.code.length).toBeGreaterThan(HISTORY_CHARACTERS);
      }),
      { numRuns: 50 },
    );
  });

  it('keeps a limited number of cells, and the newest however long it is', () => {
    const cells = Array.from({ length: HISTORY_CELLS + 5 }, (_, execution) => ({ execution, code: '' }));
    expect(boundHistory(cells)).toEqual(cells.slice(5));
    const long = { code: 'x'.repeat(HISTORY_CHARACTERS + 1) };
    expect(boundHistory([{ code: 'x' }, long])).toEqual([long]);
    expect(boundHistory([])).toEqual([]);
  });
});
