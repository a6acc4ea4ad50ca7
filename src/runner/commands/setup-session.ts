/** `setup-session`: writes an agent's profile and the transcript to go on with, where the agent looks for them. */

import { CellaError } from '../../protocol/errors.ts';
import { type SetupLine, SetupRequest, TranscriptPiece } from '../../protocol/runner-commands.ts';
import { nowhere } from '../access.ts';
import { ownVariables } from '../variables.ts';
import type { Command } from './command.ts';
import { check, firstLine } from './io.ts';

/** Of one transcript: what a text in memory can well have. */
const MOST_CHARACTERS = 256 * 1024 * 1024;

export const setupSession: Command = async ({ lines, output, agents }) => {
  const { agent: name, conversation, env, ...place } = await firstLine(lines, SetupRequest);
  const adapter = await agents.load(name);
  const agent = await adapter.open({ ...place, env: { ...ownVariables(), ...env }, model: nowhere });
  try {
    const text = conversation === undefined ? '' : await join(lines);
    const isNew = conversation !== undefined && text !== '' && (await agent.writeTranscript(conversation, text));
    const transcript = conversation === undefined || text === '' ? 'none' : isNew ? 'written' : 'kept';
    await output.write({ type: 'prepared', transcript } satisfies SetupLine);
    return 0;
  } finally {
    await agent.close();
  }
};

async function join(lines: AsyncGenerator<unknown>): Promise<string> {
  const parts: string[] = [];
  let length = 0;
  for await (const line of lines) {
    const { text } = check(TranscriptPiece, line);
    length += text.length;
    if (length > MOST_CHARACTERS) throw new CellaError('TOO_LARGE', 'The transcript is too long to be taken.');
    parts.push(text);
  }
  return parts.join('');
}
