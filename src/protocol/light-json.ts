/** JSON of a stranger, which must not take long to parse. */

import { JsonScan } from './json-scan.ts';
import { jsonOf } from './json-text.ts';

/** What has fewer bytes has few parts. */
const SMALL_BYTES = 64 * 1024;
const LIGHT = { mostDeep: 1000, mostKeys: 100_000 };
/** Of what a client sends: 400,000 numbers, or 36,000 names with their texts. Schemas look at them once more. */
export const MOST_CLIENT_EFFORT = 400_000;

/**
 * Whether it is parsed in a moment, if it is JSON at all. A long text is light; a million objects
 * would take seconds of everybody's who is served by the same process.
 */
export function isLight(json: string | Uint8Array, mostEffort = 1_000_000): boolean {
  if (json.length <= SMALL_BYTES) return true;
  const scan = new JsonScan({ ...LIGHT, mostEffort });
  scan.push(typeof json === 'string' ? Buffer.from(json) : json);
  return !scan.isTooMuch;
}

/** What a client sent. Undefined where it is no JSON, or not light: the caller says what it had asked for. */
export function lightJsonOf(text: string): unknown {
  return isLight(text, MOST_CLIENT_EFFORT) ? jsonOf(text) : undefined;
}
