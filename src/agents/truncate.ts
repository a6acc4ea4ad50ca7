/** Limits what an agent says to sizes that a log can take, and marks what is left out. */

const MOST_TEXT = 65_536;
const MOST_INPUT = 262_144;
const MOST_ID = 200;

export function truncateText(text: string, most: number = MOST_TEXT): string {
  if (text.length <= most) return text.toWellFormed();
  const half = Math.floor(most / 2);
  const left = text.length - 2 * half;
  return `${text.slice(0, half)}\n… ${left} characters are left out …\n${text.slice(-half)}`.toWellFormed();
}

export function oneLine(text: string, most: number): string {
  const line = text.replace(/\s+/g, ' ').trim();
  return (line.length <= most ? line : `${line.slice(0, most - 1)}…`).toWellFormed();
}

/** Truncates long texts in a tool's input, or the whole input if it is still too long. */
export function truncateInput(input: unknown): unknown {
  const text = JSON.stringify(input, (_key, value: unknown) =>
    typeof value === 'string' ? truncateText(value) : value,
  );
  if (text === undefined) return undefined;
  return text.length <= MOST_INPUT ? (JSON.parse(text) as unknown) : { cut: truncateText(text) };
}

/** Keeps the end of a long id, where ids of one kind differ. Ids come from the model. */
export function truncateId(id: string): string {
  return id.length <= MOST_ID ? id.toWellFormed() : id.slice(-MOST_ID).toWellFormed();
}
