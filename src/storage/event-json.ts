/** An event as the text that a storage keeps. */

import { CellaError } from '../protocol/errors.ts';

export function eventJson(event: unknown, index: number): string {
  let cause: unknown;
  try {
    const text = JSON.stringify(event);
    if (text !== undefined) return text;
  } catch (error) {
    cause = error;
  }
  throw new CellaError('STORAGE_FAILED', `Cannot store event ${index}: it cannot be written as JSON.`, { cause });
}
