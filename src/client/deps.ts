/** The packages of a session at a server. */

import * as wire from '../protocol/http/namespace-routes.ts';
import type { DepsApi, DepsResult, DepsStatus, WorkOptions } from '../session/api.ts';
import { callAt, type Place } from './place.ts';

export class RemoteDeps implements DepsApi {
  readonly #place: Place;

  constructor(place: Place) {
    this.#place = place;
  }

  async list(): Promise<readonly string[]> {
    return (await callAt(this.#place, wire.ListDeps)).deps;
  }

  async status(): Promise<DepsStatus> {
    return await callAt(this.#place, wire.DepsStatus);
  }

  async add(requirements: string | readonly string[], { signal }: WorkOptions = {}): Promise<DepsResult> {
    return await callAt(this.#place, wire.AddDeps, { body: { requirements: [requirements].flat() }, signal });
  }

  async remove(name: string, { signal }: WorkOptions = {}): Promise<DepsResult> {
    return await callAt(this.#place, wire.RemoveDep, { params: { name }, signal });
  }

  async sync({ signal }: WorkOptions = {}): Promise<DepsResult> {
    return await callAt(this.#place, wire.SyncDeps, { signal });
  }
}
