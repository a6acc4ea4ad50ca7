/** A session whose kernel is woken where it sleeps: QUOTA_EXCEEDED where its owner has too many that live. */

import type { SessionInfo } from '../../protocol/session-info.ts';
import type { SessionApi } from '../../session/api.ts';
import type { Service } from './service.ts';

export async function awake(
  { host, kernels }: Pick<Service, 'host' | 'kernels'>,
  info: SessionInfo,
): Promise<SessionApi> {
  await kernels.admit(info);
  return await (await host.open(info.id)).api();
}
