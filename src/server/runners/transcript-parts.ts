/** Sends a transcript to a runner, and reads it back, in parts that fit into a message. */

import type { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import { PIECE_CHARACTERS } from '../../protocol/runner-commands.ts';
import type { ReadTranscript, SetupSession } from '../../protocol/runner-methods.ts';
import { checkTranscriptLength } from '../../protocol/turn.ts';

export function protocolViolation(what: string): CellaError {
  return new CellaError('RUNNER_PROTOCOL', `The runner ${what}.`);
}

export type SentPart = Omit<NonNullable<z.input<typeof SetupSession.params>['transcript']>, 'conversation'>;

export interface SentTranscript {
  /** How many characters the text has. */
  readonly length: number;
  readonly text: AsyncIterable<string>;
}

/** `send` is called for each part in order, or once without a part if there is no text. */
export async function sendWholeTranscript(
  transcript: SentTranscript | undefined,
  send: (part?: SentPart) => Promise<z.output<typeof SetupSession.result>>,
): Promise<void> {
  const check = ({ transcript }: z.output<typeof SetupSession.result>, expected: readonly string[]) => {
    if (!expected.includes(transcript)) throw protocolViolation(`answered ${transcript} to a part of a transcript`);
  };
  if (!transcript || transcript.length === 0) return check(await send(), ['none']);
  const parts = Math.ceil(transcript.length / PIECE_CHARACTERS);
  let part = 0;
  for await (const text of piecesOf(transcript.text)) {
    check(await send({ text, part, parts }), part + 1 === parts ? ['written', 'kept'] : ['partial']);
    part++;
  }
}

/** All pieces but the last have the same length. A cut may split a surrogate pair: the halves join again at the other end. */
async function* piecesOf(text: AsyncIterable<string>): AsyncGenerator<string> {
  let held = '';
  for await (const some of text) {
    held += some;
    while (held.length >= PIECE_CHARACTERS) {
      yield held.slice(0, PIECE_CHARACTERS);
      held = held.slice(PIECE_CHARACTERS);
    }
  }
  if (held !== '') yield held;
}

/** About twice the parts of the longest transcript. */
const MOST_PARTS = 512;

type ReadPart = (part: number) => Promise<z.output<typeof ReadTranscript.result>>;

/** Reads each part when the caller asks for it. Undefined if there is no such conversation. */
export async function readWholeTranscript(
  conversation: string,
  read: ReadPart,
): Promise<AsyncIterable<string> | undefined> {
  const first = await read(0);
  return first.found ? readParts(conversation, first, read) : undefined;
}

async function* readParts(
  conversation: string,
  first: z.output<typeof ReadTranscript.result>,
  read: ReadPart,
): AsyncGenerator<string> {
  let length = 0;
  for (let [part, answer] = [0, first]; ; answer = await read(++part)) {
    const { found, text, parts } = answer;
    if (!found) throw protocolViolation('lost a transcript while it was read');
    if (parts > MOST_PARTS) throw protocolViolation(`sent a transcript in ${parts} parts`);
    length += text.length;
    checkTranscriptLength(conversation, length);
    yield text;
    if (part + 1 >= parts) return;
    // Empty parts could arrive forever.
    if (text === '') throw protocolViolation('sent an empty part of a transcript');
  }
}
