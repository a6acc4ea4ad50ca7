/** Makes the KernelManager of a session from the session's options. */

import type { Executor } from '../environments/kernel-host.ts';
import type { CallHandler } from '../kernel/host-calls.ts';
import { KernelManager } from '../kernel-manager/kernel-manager.ts';
import type { KernelSlots } from '../kernel-manager/kernel-slots.ts';
import type { BackgroundEvent } from '../protocol/execution-events.ts';
import { listLost } from '../protocol/kernel-state.ts';
import type { ExecutorConfig } from './executor-config.ts';
import type { CheckedOptions } from './session-options.ts';
import type { StoredSession } from './stored-session.ts';

const MB = 1024 * 1024;
/** The approximate memory of a save event, besides its names. */
const SAVED_BYTES = 200;
/** The approximate memory of a denied-host event. */
const DENIED_BYTES = 200;
/** The share of the sandbox's memory that checkpoints may use. */
const SHARE_OF_MEMORY = 0.5;

export interface KernelManagerParts {
  readonly options: CheckedOptions;
  readonly executorConfig: ExecutorConfig;
  readonly executor: Executor;
  readonly stored: StoredSession;
  readonly slots: KernelSlots;
  readonly background: (event: BackgroundEvent, bytes: number) => void;
  readonly handler: () => CallHandler;
}

export function makeKernelManager(parts: KernelManagerParts): KernelManager {
  const { options, executorConfig, executor, stored, slots, background, handler } = parts;
  return new KernelManager({
    agentKey: options.agentKey,
    environments: {
      open: () => executorConfig.open(executor),
      launchOptions: () => ({ env: executorConfig.env, packages: executorConfig.packages }),
    },
    checkFolders: () => executorConfig.checkFolders(),
    durableCheckpoints: stored.durableCheckpoints,
    checkpointLimits: {
      maxCount: options.liveCheckpoints,
      undo: options.undo,
      maxBytes: options.limits.memoryMb * MB * SHARE_OF_MEMORY,
    },
    background,
    onDenied: (attempt) => {
      background({ type: 'network_denied', ...attempt }, DENIED_BYTES);
      options.onRefused?.({ kind: 'proxy', detail: `${attempt.host}:${attempt.port}` });
    },
    onDied: ({ code, message }) => {
      if (code === 'KERNEL_PROTOCOL') options.onRefused?.({ kind: 'kernel_protocol', detail: message, code });
    },
    handler,
    clock: Date.now,
    saveAfterMs: options.saveAfterMs,
    queueLimit: options.queueLimit,
    history: stored,
    slots,
    onLive: (pid) => stored.opened(pid),
    onSaved: (manifest) => {
      stored.saved(manifest);
      const { id, bytes, saved, moreSaved = 0, ...rest } = manifest;
      const lost = listLost(rest.lost, rest.moreLost);
      const size = lost.lost.reduce((total, { name, reason }) => total + name.length + reason.length, SAVED_BYTES);
      background({ type: 'saved', id, variables: saved.length + moreSaved, bytes, ...lost }, size);
    },
  });
}
