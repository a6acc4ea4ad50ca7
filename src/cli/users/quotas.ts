/** The quotas of a user, from flags and to text. */

import type { Quotas } from '../../protocol/access-models.ts';

export interface QuotaFlags {
  readonly sessions?: number | 'none';
  readonly kernels?: number | 'none';
  readonly memory?: number | 'none';
  readonly executions?: number | 'none';
  /** In megabytes. */
  readonly storage?: number | 'none';
  readonly modelUsd?: number | 'none';
  readonly modelTokens?: number | 'none';
}

const MB = 1024 * 1024;

/** Those before with the changes that the flags say; undefined where they say none. */
export function quotasOf(flags: QuotaFlags, before: Quotas = {}): Quotas | undefined {
  const { sessions, kernels, memory, executions, storage, modelUsd, modelTokens } = flags;
  const given = [sessions, kernels, memory, executions, storage, modelUsd, modelTokens];
  if (given.every((flag) => flag === undefined)) return undefined;
  const bytes = typeof storage === 'number' ? storage * MB : storage;
  return {
    ...quota('sessions', sessions ?? before.sessions),
    ...quota('liveKernels', kernels ?? before.liveKernels),
    ...quota('memoryMb', memory ?? before.memoryMb),
    ...quota('executionsPerMinute', executions ?? before.executionsPerMinute),
    ...quota('storageBytes', bytes ?? before.storageBytes),
    ...quota('modelUsdPerDay', modelUsd ?? before.modelUsdPerDay),
    ...quota('modelTokensPerDay', modelTokens ?? before.modelTokensPerDay),
  };
}

function quota(name: keyof Quotas, value: number | 'none' | undefined): Quotas {
  return typeof value === 'number' ? { [name]: value } : {};
}

export function quotasToText(quotas: Quotas): string {
  const { sessions, liveKernels, memoryMb, executionsPerMinute, storageBytes } = quotas;
  const { modelUsdPerDay, modelTokensPerDay } = quotas;
  return [
    ...(sessions === undefined ? [] : [`${sessions} sessions`]),
    ...(liveKernels === undefined ? [] : [`${liveKernels} kernels`]),
    ...(memoryMb === undefined ? [] : [`${memoryMb} MB of memory`]),
    ...(executionsPerMinute === undefined ? [] : [`${executionsPerMinute} executions a minute`]),
    ...(storageBytes === undefined ? [] : [`${Math.round(storageBytes / MB)} MB of storage`]),
    ...(modelUsdPerDay === undefined ? [] : [`${modelUsdPerDay} USD a day for models`]),
    ...(modelTokensPerDay === undefined ? [] : [`${modelTokensPerDay} tokens a day`]),
  ].join(', ');
}
