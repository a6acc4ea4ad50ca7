/** The session log: events numbered from 1 without gaps, durable before any client sees them, and never changed. */

import { z } from 'zod';
import { AgentLogEvent } from './agent-events.ts';
import { type BackgroundEvent, Bundle, bundleFromWire, OutputFile, resultFields } from './execution-events.ts';
import { lostList } from './kernel-state.ts';
import { ErrorBody } from './parse.ts';
import { TransactionPolicy } from './session-info.ts';

export const ExecutionId = z.string().regex(/^exe_[0-9a-z]{16}$/);

/** Output carries its execution. `background`: the execution had already ended. */
const owned = {
  execution: ExecutionId.optional(),
  background: z.literal(true).optional(),
  /** Only for background output: the number of the cell in its kernel, as in its result. */
  number: z.int().min(1).optional(),
};
const ofOne = { execution: ExecutionId };

/** The code was accepted and its turn has come. One of `result`, `execution_failed` and `interrupted` ends it. */
const ExecutionStarted = z.object({
  type: z.literal('execution_started'),
  ...ofOne,
  code: z.string(),
  /** Set if the code was too large for an event. `code` is then its beginning. */
  file: OutputFile.optional(),
  transaction: TransactionPolicy.optional(),
  timeoutMs: z.number().optional(),
  /** The id of the user who sent the code. */
  by: z.string().optional(),
  /** A digest of the Idempotency-Key of the request. */
  request: z.string().optional(),
});

const Stdout = z.object({ type: z.literal('stdout'), ...owned, text: z.string() });
const Stderr = z.object({ type: z.literal('stderr'), ...owned, text: z.string() });

/** The rest of a stream of this execution is in a file, which can be read while it grows. */
const OutputMoved = z.object({
  type: z.literal('output_file'),
  ...owned,
  stream: z.enum(['stdout', 'stderr']),
  file: OutputFile,
});

/** `file` replaces `data` if it is too large: the same bundle as JSON. */
const Display = z.object({
  type: z.literal('display'),
  ...owned,
  data: Bundle.optional(),
  file: OutputFile.optional(),
});

const Progress = z.object({ type: z.literal('progress'), ...owned, task: z.string(), text: z.string() });

const InputRequest = z.object({
  type: z.literal('input_request'),
  ...ofOne,
  /** An answer must contain this id. */
  id: z.int(),
  prompt: z.string(),
  password: z.boolean(),
});

/** The answer itself is not stored. `unanswered`: it timed out, or its cell ended. */
const InputAnswered = z.object({
  type: z.literal('input_answered'),
  ...ofOne,
  id: z.int(),
  outcome: z.enum(['answered', 'cancelled', 'unanswered']),
  by: z.string().optional(),
});

/** `file` contains `{"value", "repr", "data"}` as JSON if they are too large. The output is in earlier events. */
const Result = z.object({ type: z.literal('result'), ...ofOne, ...resultFields, file: OutputFile.optional() });

/** The execution has no result: it never began, or its events could not be stored. */
const ExecutionFailed = z.object({
  type: z.literal('execution_failed'),
  ...ofOne,
  error: ErrorBody.shape.error.partial({ details: true }),
});

/** The server ended while it ran. It is not run again. */
const Interrupted = z.object({ type: z.literal('interrupted'), ...ofOne, reason: z.string() });

const Saved = z.object({
  type: z.literal('saved'),
  checkpoint: z.string(),
  variables: z.int(),
  bytes: z.int(),
  ...lostList,
});

/** Events that could not be stored. They have no numbers. */
const EventsLost = z.object({ type: z.literal('events_lost'), count: z.int().min(1), reason: z.string() });

/** Changes of the session other than executions. */
const SessionState = z.object({
  type: z.literal('session_state'),
  change: z.enum([
    'created',
    'updated',
    'forked',
    'confirmed',
    'reset',
    'restarted',
    'committed',
    'rolled_back',
    'checkpoint_made',
    'checkpoint_restored',
    'checkpoint_deleted',
    'undone',
    'hibernated',
    'deleted',
  ]),
  /** The id of the checkpoint or session that it is about. */
  subject: z.string().optional(),
  by: z.string().optional(),
});

/** An event as the log keeps it. */
export const SessionEventBody = z.discriminatedUnion('type', [
  ExecutionStarted,
  Stdout,
  Stderr,
  OutputMoved,
  Display,
  Progress,
  InputRequest,
  InputAnswered,
  Result,
  ExecutionFailed,
  Interrupted,
  Saved,
  EventsLost,
  SessionState,
  ...AgentLogEvent.options,
]);
export type SessionEventBody = z.infer<typeof SessionEventBody>;

/** `at` is in milliseconds since 1970; order is by `seq` alone. */
const numbered = z.object({ seq: z.int().min(1), at: z.number() });
export const SessionEvent = z.intersection(numbered, SessionEventBody).meta({ id: 'SessionEvent' });
export type SessionEvent = z.infer<typeof SessionEvent>;

/** Tells a reader that events up to this number are gone, and the next is after it. It has no number itself. */
const TrimmedNotice = z.object({ type: z.literal('trimmed'), throughSeq: z.int().min(0) });

/** What a reader of a session gets. */
export const StreamItem = z.union([TrimmedNotice, SessionEvent]).meta({ id: 'StreamItem' });
export type StreamItem = z.infer<typeof StreamItem>;

const executionEnds = ['result', 'execution_failed', 'interrupted'] as const;
export type ExecutionEnd = Extract<SessionEventBody, { type: (typeof executionEnds)[number] }>;

/** Whether this event ends an execution. */
export function isExecutionEnd(event: SessionEventBody): event is ExecutionEnd {
  return executionEnds.some((type) => type === event.type);
}

/** Undefined for events that belong to an execution, and for data in a file. */
export function toBackgroundEvent(item: StreamItem): BackgroundEvent | undefined {
  if (item.type === 'saved') {
    const { type, seq: _seq, at: _at, checkpoint: id, ...facts } = item;
    return { type, id, ...facts };
  }
  if (item.type === 'network_denied') {
    const { host, port, reason, more } = item;
    return { type: 'network_denied', host, port, reason, more };
  }
  if (!('background' in item) || !item.background) return undefined;
  const late = item.number === undefined ? {} : { execution: item.number };
  switch (item.type) {
    case 'stdout':
    case 'stderr':
      return { type: item.type, text: item.text, ...late };
    case 'progress':
      return { type: 'progress', task: item.task, text: item.text };
    case 'display':
      return item.data && { type: 'display', data: bundleFromWire(item.data), ...late };
    default:
      return undefined;
  }
}
