/** Cella's permission modes in Claude's words. */

import type { PermissionMode } from '../../protocol/turn.ts';

const native = {
  ask: 'default',
  'auto-edit': 'acceptEdits',
  plan: 'plan',
  bypass: 'bypassPermissions',
} as const satisfies Record<PermissionMode, string>;

export function nativeMode(mode: PermissionMode): string {
  return native[mode];
}

/** A mode that is not ours asks. */
export function modeOf(word: string | undefined): PermissionMode {
  const modes = Object.keys(native) as (keyof typeof native)[];
  return modes.find((mode) => native[mode] === word) ?? 'ask';
}
