/** Checks the quotas of a session's owner before code runs or a kernel wakes. */

import type { SessionInfo } from '../../protocol/session-info.ts';
import type { SessionApi } from '../../session/api.ts';
import type { ServerContext } from '../http/server-context.ts';

/** Counts one execution. QUOTA_EXCEEDED if the owner may not run it. */
export async function admitExecution(
  { access, kernels, storageQuota }: Pick<ServerContext, 'access' | 'kernels' | 'storageQuota'>,
  info: SessionInfo,
): Promise<void> {
  const { ownerId } = info;
  // Read once: this is part of every execution.
  const limits = await access.quotas.limitsOf(ownerId);
  await access.quotas.countExecution(ownerId, limits);
  await kernels.admit(info);
  await storageQuota.admit(ownerId, 1, limits);
}

/** The session with its kernel running. QUOTA_EXCEEDED if its owner has too many live kernels. */
export async function wakeSession(
  { host, kernels }: Pick<ServerContext, 'host' | 'kernels'>,
  info: SessionInfo,
): Promise<SessionApi> {
  await kernels.admit(info);
  return await (await host.open(info.id)).api();
}
