/** Terminals of an environment, by way of its runner. */

import { z } from 'zod';
import type { RpcMethod, RpcNotification } from '../rpc-message.ts';
import { TerminalArgv, TerminalSize } from '../workspace-models.ts';
import { path } from './rpc-words.ts';

const TerminalId = z.string().min(1).max(128);

/** A program on a PTY of the environment; without `argv` the shell that there is. */
export const SpawnTerminal = {
  method: 'spawn_terminal',
  params: z.object({ terminal_id: TerminalId, cwd: path, size: TerminalSize, argv: TerminalArgv.optional() }),
  result: z.object({ pid: z.int() }),
} as const satisfies RpcMethod;

export const TerminateTerminal = {
  method: 'terminate_terminal',
  params: z.object({ terminal_id: TerminalId }),
  result: z.object({ terminated: z.boolean() }),
} as const satisfies RpcMethod;

/** What somebody types. */
export const TerminalInput = {
  method: 'terminal_input',
  params: z.object({ terminal_id: TerminalId, data: z.base64().max(64 * 1024) }),
} as const satisfies RpcNotification;

/** What it shows. */
export const TerminalOutput = {
  method: 'terminal_output',
  params: z.object({ terminal_id: TerminalId, data: z.base64().max(128 * 1024) }),
} as const satisfies RpcNotification;

export const TerminalExited = {
  method: 'terminal_exited',
  params: z.object({ terminal_id: TerminalId, code: z.int().optional(), signal: z.string().max(32).optional() }),
} as const satisfies RpcNotification;
