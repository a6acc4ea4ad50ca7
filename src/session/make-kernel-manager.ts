/** Makes the KernelManager of a session from the session's options. */

import type { Executor } from '../environments/kernel-host.ts';
import type { CallHandler } from '../kernel/host-calls.ts';
import { KernelManager } from '../kernel-manager/kernel-manager.ts';
import type { KernelSlots } from '../kernel-manager/kernel-slots.ts';
import type { BackgroundEvent } from '../protocol/execution-events.ts';
import type { SandboxConfig } from './sandbox-config.ts';
import type { CheckedOptions } from './session-options.ts';
import type { StoredSession } from './stored-session.ts';

const MB = 1024 * 1024;
/** About what the event of a save takes in memory. */
const SAVED_BYTES = 200;
/** About what the event of a denied host takes in memory. */
const DENIED_BYTES = 200;
/** How much of the sandbox's memory checkpoints may take. */
const SHARE_OF_MEMORY = 0.5;

export interface KernelManagerParts {
  readonly options: CheckedOptions;
  readonly sandboxConfig: SandboxConfig;
  readonly executor: Executor;
  readonly stored: StoredSession;
  readonly slots: KernelSlots;
  readonly background: (event: BackgroundEvent, bytes: number) => void;
  readonly handler: () => CallHandler;
}

export function makeKernelManager(parts: KernelManagerParts): KernelManager {
  const { options, sandboxConfig, executor, stored, slots, background, handler } = parts;
  return new KernelManager({
    agentKey: options.agentKey,
    environments: {
      open: () => sandboxConfig.open(executor),
      launchOptions: () => ({ env: sandboxConfig.env, packages: sandboxConfig.packages }),
    },
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
    onCell: (cell) => stored.addCell(cell),
    slots,
    onLive: (pid) => stored.opened(pid),
    onSaved: (manifest) => {
      stored.saved(manifest);
      const { id, bytes, saved, lost } = manifest;
      background({ type: 'saved', id, names: saved.length, bytes, lost }, SAVED_BYTES);
    },
  });
}
