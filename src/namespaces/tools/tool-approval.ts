/** Asks a person before a tool that requires it is used. */

import { raceAbort } from '../../lib/abort.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { PyValue } from '../../protocol/py-values.ts';
import type { NamespaceCallContext } from '../host-methods.ts';
import { abortedError } from './call-errors.ts';

export interface ApprovalRequest {
  readonly tool: string;
  readonly recipe: string | undefined;
  /** By name, with defaults and presets: exactly what the tool will get. */
  readonly arguments: Readonly<Record<string, PyValue>>;
  /** The same for people to read: a command line, or a request. */
  readonly summary: string;
  /** Fingerprint of the tool's definition. Changes with its program, address, environment, credentials or limits. */
  readonly definition?: string | undefined;
  /** Aborted when the answer is no longer needed. */
  readonly signal: AbortSignal;
}

export type Approval = boolean | { readonly allowed: boolean; readonly reason?: string | undefined };
export type Approve = (request: ApprovalRequest) => Promise<Approval>;

/** Resolves if it is allowed. Anything else, even an error of the hook, is a refusal. */
export async function askApproval(
  approve: Approve | undefined,
  request: Omit<ApprovalRequest, 'signal'>,
  context: NamespaceCallContext,
): Promise<void> {
  if (approve === undefined) throw refusedError(request, 'nobody is there to ask');
  const asked = context
    .whileAsking(() => approve({ ...request, signal: context.signal }))
    .catch((error: unknown) => {
      throw refusedError(request, `nobody could be asked (${error instanceof Error ? error.message : String(error)})`);
    });
  const answer = await raceAbort(asked, context.signal, () => abortedError(calleeOf(request)));
  const { allowed, reason } = typeof answer === 'boolean' ? { allowed: answer, reason: undefined } : answer;
  if (allowed !== true) throw refusedError(request, reason ?? 'the person who was asked did not allow it');
}

function calleeOf({ tool, recipe }: Pick<ApprovalRequest, 'tool' | 'recipe'>): string {
  return recipe === undefined ? tool : `${tool}.${recipe}`;
}

function refusedError(request: Omit<ApprovalRequest, 'signal'>, reason: string): CellaError {
  const { tool, recipe, summary } = request;
  const message = `tools.${calleeOf(request)} requires approval and was not run: ${reason}.`;
  return new CellaError('APPROVAL_REFUSED', message, { details: { tool, recipe, summary } });
}
