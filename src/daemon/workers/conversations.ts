/** What an agent finds before its turn, and what is kept of it after: its profile, and its conversation. */

import type { TurnTask } from '../turns/contract.ts';
import type { Place } from './contract.ts';

export interface Conversations {
  /** Lays out the profile, and the conversation to go on with where the agent has none that is newer. Gives which. */
  prepare(place: Place, task: TurnTask): Promise<string | undefined>;
  /** Keeps the conversation as the agent has it now. */
  keep(place: Place, task: TurnTask, conversation: string): Promise<void>;
}
