/** Whether a user may have one more live kernel and its memory. Checked before a kernel starts. */

import { KeyedSerialQueue } from '../../lib/queues.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import type { AccessControl } from '../access/access-control.ts';
import type { SessionManager } from '../sessions/session-manager.ts';

/** How long an admitted kernel counts before it is seen to be live. */
const STARTING_MS = 30_000;

type CountedKernel = Pick<SessionInfo, 'id' | 'ownerId' | 'settings'>;

export class KernelQuota {
  readonly #quotas: AccessControl['quotas'];
  readonly #host: SessionManager;
  /** By the id of a session: when it was admitted. */
  readonly #starting = new Map<string, number>();
  /** By user: checks run one after the other, so that two at once cannot both take the last place. */
  readonly #checks = new KeyedSerialQueue<string>();

  constructor(quotas: AccessControl['quotas'], host: SessionManager) {
    this.#quotas = quotas;
    this.#host = host;
  }

  /** QUOTA_EXCEEDED if it is one too many. Costs nothing while the kernel of the session is live. */
  async admit(info: SessionInfo): Promise<void> {
    if (info.state === 'hibernated') await this.#admit(info);
    else this.#starting.delete(info.id);
  }

  /** The same for a new kernel of this owner with the settings of the session. */
  async admitFork(info: SessionInfo, ownerId: string): Promise<void> {
    await this.#admit({ ...info, id: '', ownerId });
  }

  /** The same for a live kernel that restarts with other limits. */
  async admitChange(info: SessionInfo, limits: SessionInfo['settings']['limits']): Promise<void> {
    if (info.state !== 'hibernated') await this.#admit({ ...info, settings: { ...info.settings, limits } });
  }

  async #admit(info: CountedKernel): Promise<void> {
    const { ownerId } = info;
    const { liveKernels, memoryMb } = await this.#quotas.limitsOf(ownerId);
    if (liveKernels === undefined && memoryMb === undefined) return;
    await this.#checks.run(ownerId, () => this.#check(info));
  }

  async #check(info: CountedKernel): Promise<void> {
    const now = performance.now();
    for (const [id, at] of this.#starting) if (now - at > STARTING_MS) this.#starting.delete(id);
    const live = (await this.#host.liveOf(info.ownerId, this.#starting.keys())).filter(
      ({ id, state }) => id !== info.id && (state !== 'hibernated' || this.#starting.has(id)),
    );
    // From here on it counts because it is live.
    for (const { id, state } of live) if (state !== 'hibernated') this.#starting.delete(id);
    const used = {
      liveKernels: live.length,
      memoryMb: live.reduce((sum, session) => sum + memoryOf(session), 0),
    };
    await this.#quotas.check(info.ownerId, { liveKernels: 1, memoryMb: memoryOf(info) }, used);
    if (info.id !== '') this.#starting.set(info.id, now);
  }
}

const memoryOf = ({ settings }: Pick<SessionInfo, 'settings'>): number => settings.limits.memoryMb;
