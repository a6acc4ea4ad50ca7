/** A conversation from the parts in which an executor tells it. */

import type { z } from 'zod';
import type { ReadTranscript } from '../../protocol/runner-methods.ts';
import { checkTranscriptLength } from '../../protocol/turn.ts';
import { breach } from './assignment.ts';

/** About twice as many as the longest one has. */
const MOST_PARTS = 512;

type Part = z.output<typeof ReadTranscript.result>;

/** Undefined where there is no such conversation. */
export async function wholeTranscript(
  conversation: string,
  read: (part: number) => Promise<Part>,
): Promise<string | undefined> {
  const texts: string[] = [];
  let length = 0;
  for (let part = 0; ; part++) {
    const { found, text, parts } = await read(part);
    if (!found) return undefined;
    if (parts > MOST_PARTS) throw breach(`told a transcript in ${parts} parts`);
    length += text.length;
    checkTranscriptLength(conversation, length);
    texts.push(text);
    if (part + 1 >= parts) return texts.join('');
    // One that says nothing, and that there is more, would go on for ever.
    if (text === '') throw breach('told a part of a transcript that has nothing in it');
  }
}
