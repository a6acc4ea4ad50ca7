/** `read-transcript`: a conversation as the agent keeps it, or as the events that it was. */

import { type TranscriptLine, TranscriptRequest, transcriptPieces } from '../../protocol/runner-commands.ts';
import { nowhere } from '../access.ts';
import { ownVariables } from '../variables.ts';
import type { Command } from './command.ts';
import { firstLine } from './io.ts';

export const readTranscript: Command = async ({ lines, output, agents }) => {
  const { agent: name, conversation, as, env, ...place } = await firstLine(lines, TranscriptRequest);
  const adapter = await agents.load(name);
  const write = (line: TranscriptLine) => output.write(line);
  const agent = await adapter.open({ ...place, env: { ...ownVariables(), ...env }, model: nowhere, profile: {} });
  try {
    const text = await agent.readTranscript(conversation);
    if (as === 'text') for (const piece of transcriptPieces(text ?? '')) await write(piece);
    else for (const event of adapter.eventsOf(text ?? '')) await write({ type: 'event', event });
    await write({ type: 'end', found: text !== undefined });
    return 0;
  } finally {
    await agent.close();
  }
};
