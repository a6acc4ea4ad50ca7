/** Asks the person at the terminal before a tool runs that requires approval. */

import type { ApprovalRequest } from '../session/api.ts';
import type { LineSource } from './lines.ts';
import type { Terminal } from './terminal.ts';
import { toPlain } from './texts.ts';

export interface Asked {
  readonly terminal: Terminal;
  /** Undefined as long as nobody can be asked. */
  readonly lines: () => LineSource | undefined;
}

export type Approve = (request: ApprovalRequest) => Promise<boolean | { allowed: false; reason: string }>;

/** Whatever is no clear yes is a no, and so is everything where nobody reads. */
export function approver({ terminal, lines }: Asked): Approve {
  let before: Promise<unknown> = Promise.resolve();
  const ask: Approve = async ({ tool, recipe, summary, signal }) => {
    const source = lines();
    if (!source) return { allowed: false, reason: 'there is no terminal to ask at' };
    const callee = recipe === undefined ? tool : `${tool}.${recipe}`;
    const line = await terminal.alone(async (screen) => {
      await screen.errLines(`${toPlain(callee)} requires approval, and would do this:`);
      await screen.errLines(`  ${summary.split('\n').map(toPlain).join('\n  ')}`, 'bold');
      return await source.read({ prompt: 'Allow it? [y/N] ', fresh: true, signal });
    });
    return line.kind === 'line' && /^\s*y(es)?\s*$/i.test(line.text);
  };
  return async (request) => {
    // One question at a time: several tools may be called at once.
    const answer = before.then(() => ask(request));
    before = answer.catch(() => {});
    return await answer;
  };
}
