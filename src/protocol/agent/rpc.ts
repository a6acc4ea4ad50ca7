/** What daemon and runner ask of each other: JSON-RPC 2.0, one message a line. docs/executor-protocol.md tells it all. */

import { SpawnTerminal, TerminalExited, TerminalInput, TerminalOutput, TerminateTerminal } from './rpc-terminals.ts';
import {
  GetApiKey,
  GetExecutionContext,
  ReportCompletion,
  ReportMessage,
  ReportProgress,
  RequestPermission,
} from './rpc-to-daemon.ts';
import { ExecutePrompt, Hello, PermissionResolved, Ping, ReadTranscript, Shutdown, StopTask } from './rpc-to-runner.ts';

export * from './rpc-terminals.ts';
export * from './rpc-to-daemon.ts';
export * from './rpc-to-runner.ts';
export { KeyMode, SessionToken, TaskOutcome, TaskStatus } from './rpc-words.ts';

/** Raised with every change that the other side must know of. Fields that only one side knows are left out by the other. */
export const PROTOCOL_VERSION = 2;

/** From the daemon to the runner. */
export const toRunner = [
  Hello,
  Ping,
  ExecutePrompt,
  ReadTranscript,
  StopTask,
  PermissionResolved,
  Shutdown,
  SpawnTerminal,
  TerminateTerminal,
  TerminalInput,
] as const;

/** From the runner to the daemon. */
export const toDaemon = [
  GetApiKey,
  RequestPermission,
  GetExecutionContext,
  ReportMessage,
  ReportProgress,
  ReportCompletion,
  TerminalOutput,
  TerminalExited,
] as const;
