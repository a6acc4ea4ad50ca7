/** Decisions that were made while nobody waited: whoever asks for the very same thing next takes them, once. */

import type { PermissionInfo } from '../../protocol/api/agent-routes.ts';
import type { PermissionRecord, PermissionRecords } from './records.ts';

export class Untaken {
  readonly #records: PermissionRecords;
  /** How long one may lie: as long as such a request may wait. 0 means any time. */
  readonly #patienceMs: (info: PermissionInfo) => number;
  readonly #lying = new Set<PermissionRecord>();

  constructor(records: PermissionRecords, patienceMs: (info: PermissionInfo) => number) {
    this.#records = records;
    this.#patienceMs = patienceMs;
  }

  add(record: PermissionRecord): void {
    if (record.request !== undefined) this.#lying.add(record);
  }

  /** Gone from here before anything is waited for: no two can take it. Resolves when storage knows. */
  take(request: string): Promise<PermissionInfo> | undefined {
    const record = [...this.#lying].find((one) => one.request === request);
    if (!record) return undefined;
    this.#lying.delete(record);
    const { info } = record;
    const taken = this.#records.put({ ...record, delivered: true }).then(() => info);
    const [patienceMs, age] = [this.#patienceMs(info), Date.now() - (info.resolution?.at ?? 0)];
    if (patienceMs === 0 || age < patienceMs) return taken;
    void taken.catch(() => {}); // the next server finds that it is too old
    return undefined;
  }

  /** Nobody will ask for them again. */
  async drop(which: (info: PermissionInfo) => boolean): Promise<void> {
    const all = [...this.#lying].filter(({ info }) => which(info));
    for (const record of all) this.#lying.delete(record);
    await Promise.all(all.map((record) => this.#records.put({ ...record, delivered: true })));
  }
}
