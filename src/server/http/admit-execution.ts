/** Whether the owner of a session may run one more cell in it: counted, and QUOTA_EXCEEDED where that is too much. */

import type { SessionInfo } from '../../protocol/session-info.ts';
import type { Service } from './service.ts';

export async function admitExecution(
  { access, kernels, room }: Pick<Service, 'access' | 'kernels' | 'room'>,
  info: SessionInfo,
): Promise<void> {
  const { ownerId } = info;
  // Read once: this is part of every execution.
  const limits = await access.quotas.limitsOf(ownerId);
  await access.quotas.countExecution(ownerId, limits);
  await kernels.admit(info);
  await room.admit(ownerId, 1, limits);
}
