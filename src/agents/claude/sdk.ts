/** Claude's own library, as far as Cella uses it: loaded from where `cella agents install` has put it. */

import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import { claudeProgram } from './program.ts';

export type Decision =
  | { readonly behavior: 'allow'; readonly updatedInput: Readonly<Record<string, unknown>> }
  | { readonly behavior: 'deny'; readonly message: string };

export interface AskedWith {
  readonly signal: AbortSignal;
  readonly toolUseID: string;
}

export type CanUseTool = (tool: string, input: Record<string, unknown>, asked: AskedWith) => Promise<Decision>;

/** Called before each tool of the program's. */
export interface HookMatcher {
  readonly hooks: readonly ((input: unknown) => Promise<object>)[];
  /** What happens to the tool where a hook throws. */
  readonly onFailure: 'block';
}

export interface PromptMessage {
  readonly type: 'user';
  readonly uuid: string;
  readonly message: { readonly role: 'user'; readonly content: string };
  readonly parent_tool_use_id: null;
}

/** The messages are parsed one by one: see native.ts. */
export interface Query extends AsyncIterable<unknown> {
  setMcpServers(servers: Readonly<Record<string, unknown>>): Promise<unknown>;
  /** Ends the turn as a person would: what was said so far is kept. */
  interrupt(): Promise<unknown>;
  /** Ends the process. */
  close(): void;
}

export interface Sdk {
  query(call: { prompt: AsyncIterable<PromptMessage>; options: Readonly<Record<string, unknown>> }): Query;
}

const Module = z.object({ query: z.custom<Sdk['query']>((value) => typeof value === 'function') });

export async function loadSdk(programDir: string): Promise<Sdk> {
  const file = join(programDir, 'node_modules', ...claudeProgram.packageName.split('/'), 'sdk.mjs');
  try {
    return Module.parse(await import(pathToFileURL(file).href));
  } catch (cause) {
    const message = `Claude's program is not in ${programDir}.`;
    const advice = 'Install it where the server runs: `cella agents install claude`.';
    throw new CellaError('AGENT_NOT_INSTALLED', message, { cause, advice });
  }
}
