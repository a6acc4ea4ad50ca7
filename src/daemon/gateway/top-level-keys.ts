/** The keys of a JSON object as they are written: JSON.parse keeps the last of two that are the same, others the first. */

const [QUOTE, BACKSLASH, COLON] = [0x22, 0x5c, 0x3a];
const OPENING = new Set([0x7b, 0x5b]);
const CLOSING = new Set([0x7d, 0x5d]);
const BLANK = new Set([0x20, 0x09, 0x0a, 0x0d]);

/** Of bytes that are valid JSON. */
export function* topLevelKeys(json: Buffer): Generator<string> {
  let depth = 0;
  for (let at = 0; at < json.length; at += 1) {
    const byte = json[at] ?? 0;
    if (OPENING.has(byte)) depth += 1;
    else if (CLOSING.has(byte)) depth -= 1;
    else if (byte === QUOTE) {
      const end = endOfString(json, at);
      if (depth === 1 && nextIs(json, end + 1, COLON)) yield JSON.parse(json.toString('utf8', at, end + 1));
      at = end;
    }
  }
}

/** Where the quote is that ends the string which begins here. */
function endOfString(json: Buffer, start: number): number {
  for (let end = json.indexOf(QUOTE, start + 1); end !== -1; end = json.indexOf(QUOTE, end + 1)) {
    let slashes = 0;
    while (json[end - 1 - slashes] === BACKSLASH) slashes += 1;
    if (slashes % 2 === 0) return end;
  }
  return json.length;
}

function nextIs(json: Buffer, from: number, wanted: number): boolean {
  let at = from;
  while (BLANK.has(json[at] ?? 0)) at += 1;
  return json[at] === wanted;
}
