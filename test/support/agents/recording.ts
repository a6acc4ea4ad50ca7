/** One recorded conversation: what the program said while it ran, and the transcript that it left. */

import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { PermissionMode, TurnResult } from '../../../src/protocol/turn.ts';

export const recordings = fileURLToPath(new URL('../../recordings/', import.meta.url));

export interface RecordedTurn {
  readonly turn: string;
  readonly prompt: string;
  readonly mode: PermissionMode;
  readonly outcome: TurnResult;
  /** In the agent's own words, in their order. */
  readonly native: readonly unknown[];
}

export interface Recording {
  readonly agent: string;
  readonly version: string;
  readonly cwd: string;
  readonly turns: readonly RecordedTurn[];
  /** Line by line; those that no event comes from are left out. */
  readonly transcript: readonly unknown[];
}

export function recordedNames(agent: string): string[] {
  const names = readdirSync(recordings).filter((name) => name.startsWith(`${agent}-`) && name.endsWith('.json'));
  return names.map((name) => name.slice(agent.length + 1, -'.json'.length));
}

export function readRecording(agent: string, name: string): Recording {
  return JSON.parse(readFileSync(`${recordings}${agent}-${name}.json`, 'utf8'));
}
