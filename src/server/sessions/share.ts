/** What all sessions of a host have in common. */

import type { OnFailure } from '../../environments/files/remove-tree.ts';
import type { CodeRefusal } from '../../protocol/access-models.ts';
import type { NewFork } from '../../protocol/session-info.ts';
import type { KernelPool } from '../../session/kernel-pool.ts';
import type { SessionOptions } from '../../session/session-options.ts';
import type { Storage } from '../../storage/contract.ts';
import type { AgentRunner } from '../turns/contract.ts';
import type { Retention } from './contract.ts';
import type { Counters } from './counters.ts';
import type { Definition } from './definition.ts';
import type { HostOptions } from './host-options.ts';
import type { HostedSession } from './hosted-session.ts';
import type { Leftovers } from './leftovers.ts';
import type { RecordLimits } from './recorder.ts';
import type { RequestLimits } from './requests.ts';

export type KernelHooks = Required<Pick<SessionOptions, 'approve' | 'onProgress' | 'onRefused' | 'admitCall'>>;

export interface HostShare {
  readonly pool: KernelPool;
  readonly storage: Storage;
  readonly dataDir: string;
  /** For every session, beneath its own settings. */
  readonly session: NonNullable<HostOptions['session']> & { readonly folderLinks: 'refused' };
  /** Where others share the storage, and not the data folder. */
  readonly leftovers: Leftovers | undefined;
  readonly counters: Counters;
  readonly limits: RecordLimits;
  readonly requests: RequestLimits;
  readonly retention: Retention;
  /** Idle kernels are put to sleep after this long; 0 means never. */
  readonly idleTtlMs: number;
  /** Whether a result is flushed to the disk before it is told. */
  readonly flushResults: boolean;
  /** How often retention is looked after. */
  readonly sweepEveryMs: number;
  /** Sessions that nobody has used for this long are closed. */
  readonly closeAfterMs: number;
  /** Runs the turns of agents; undefined where this server has none. */
  readonly agents: AgentRunner | undefined;
  /** Whether the server is going down: nothing new begins. */
  readonly stopping: () => boolean;
  /** Told of what earlier sessions have left and that could not be removed yet. */
  readonly onLeftover: OnFailure;
  /** A definition as it is by now; `NOT_FOUND` where it is gone meanwhile. */
  readonly current: (definition: Definition) => Promise<Definition>;
  /** What a kernel asks and tells its session. */
  readonly hooksOf: (definition: Definition) => KernelHooks;
  /** Told of what the code of a session tried and was refused. */
  readonly refused: (definition: Definition, refusal: CodeRefusal) => void;
  readonly fork: (id: string, wanted: NewFork) => Promise<HostedSession>;
  readonly delete: (id: string) => Promise<void>;
  /** Told of a session that another server has taken over. */
  readonly forsaken: (session: HostedSession) => void;
}
