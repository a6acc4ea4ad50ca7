/** `cella skills run`: a skill in an agent's kernel, with what it prints as it comes. */

import { eventToJson } from '../../protocol/execution-events.ts';
import { printEvent, printNotices } from '../cells/event-printer.ts';
import { exitCodeOf } from '../command-errors.ts';
import { withSession } from '../command-lifecycle.ts';
import type { OpenOptions } from '../context.ts';
import type { NamespaceContext } from '../session-options.ts';
import { invokeCell, parseSkillArguments } from './invoke.ts';

export interface RunRequest {
  readonly name: string;
  readonly words: readonly string[];
  readonly args: string | undefined;
  readonly session: OpenOptions;
  readonly timeoutMs: number;
  readonly json: boolean;
}

export async function run(request: RunRequest, context: NamespaceContext): Promise<number> {
  const { terminal } = context;
  const { name, words, args, json, timeoutMs } = request;
  await using namespaces = await context.openNamespaces(request.session);
  const skill = await namespaces.skills.get(name);
  const code = invokeCell(skill.name, parseSkillArguments(skill, words, args), words);
  return await withSession(request.session, context, async (session) => {
    for await (const event of session.stream(code, { timeoutMs })) {
      if (event.type === 'input_request') await session.cancelInput(event.id, 'a skill has nobody to ask here');
      if (json) await terminal.out(`${JSON.stringify(eventToJson(event))}\n`);
      else {
        if (event.type === 'result') await printNotices(terminal, event);
        await printEvent(terminal, event);
      }
      if (event.type === 'result') return exitCodeOf(event);
    }
    throw new Error('the skill ended without a result');
  });
}
