/** How an execution begins: what the log says of it, and what its kernel is told. */

import type { SessionEventBody } from '../../protocol/session-events.ts';
import type { ExecuteOptions } from '../../session/api.ts';
import type { HostedExecution } from './execution.ts';
import type { Outputs } from './outputs.ts';
import type { RecordLimits } from './recorder.ts';

/** How much of a code that is too large for an event its event shows. */
const SHOWN_CODE = 4096;

export async function startedEvent(
  { id, code, options, request }: HostedExecution,
  outputs: Outputs,
  { eventBytes }: RecordLimits,
): Promise<SessionEventBody> {
  const large = code.length > eventBytes;
  const { transaction, timeoutMs, by } = options;
  return {
    type: 'execution_started',
    execution: id,
    code: large ? code.slice(0, SHOWN_CODE) : code,
    ...(large ? { file: await outputs.keep('txt', code) } : {}),
    ...(transaction === undefined ? {} : { transaction }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(by === undefined ? {} : { by }),
    ...(request === undefined ? {} : { request }),
  };
}

export function optionsOf({ options }: HostedExecution, signal: AbortSignal): ExecuteOptions {
  const { timeoutMs, inputTimeoutMs, transaction } = options;
  return {
    signal,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(inputTimeoutMs === undefined ? {} : { inputTimeoutMs }),
    ...(transaction === undefined ? {} : { transaction }),
  };
}
