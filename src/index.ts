/** The library's front door. */

export { CellaError, type ErrorCode, errorCodes } from './protocol/errors.ts';
export type {
  Death,
  DisplayEvent,
  ExecutionError,
  ExecutionEvent,
  InputRequestEvent,
  MimeBundle,
  OutputEvent,
  ResultEvent,
  Status,
  Truncated,
} from './protocol/events.ts';
export { eventToJson } from './protocol/events.ts';
export { PyObject, type PyValue } from './protocol/values.ts';
export type {
  Completeness,
  Completion,
  ExecuteOptions,
  HistoryEntry,
  Inspection,
  RunOptions,
  SessionApi,
  Variable,
} from './session/api.ts';
export { shutdown } from './session/executors.ts';
export type { SessionOptions } from './session/options.ts';
export { Session } from './session/session.ts';
