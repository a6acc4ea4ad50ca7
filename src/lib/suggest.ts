/** Finds the known word closest to a mistyped one. */

const LONGEST_NAME = 40;

/** The most likely intended name, if any is close enough. */
export function suggest(typed: string, names: readonly string[]): string | undefined {
  const name = typed.slice(0, LONGEST_NAME).toLowerCase();
  const near = names
    .map((each) => ({ each, distance: each.startsWith(name) && name !== '' ? 0.5 : distance(name, each) }))
    .toSorted((one, other) => one.distance - other.distance)[0];
  return near && near.distance <= Math.max(1, Math.floor(name.length / 3)) ? near.each : undefined;
}

/** How many letters must be added, removed, changed or swapped with the next. */
function distance(one: string, other: string): number {
  const rows = [Array.from({ length: other.length + 1 }, (_, column) => column)];
  const at = (row: number, column: number) => rows[row]?.[column] ?? Infinity;
  for (let row = 1; row <= one.length; row++) {
    const values = [row];
    rows.push(values);
    for (let column = 1; column <= other.length; column++) {
      const same = one[row - 1] === other[column - 1];
      const swapped = one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1];
      values.push(
        Math.min(
          at(row - 1, column) + 1,
          at(row, column - 1) + 1,
          at(row - 1, column - 1) + (same ? 0 : 1),
          swapped ? at(row - 2, column - 2) + 1 : Infinity,
        ),
      );
    }
  }
  return at(one.length, other.length);
}
