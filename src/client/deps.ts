/** The packages of a session at a server. */

import { jsonLines } from '../lib/line-splitter.ts';
import * as wire from '../protocol/api/namespace-routes.ts';
import type { Route } from '../protocol/api/route.ts';
import { Failure } from '../protocol/error-body.ts';
import { DepsLine } from '../protocol/namespace-models.ts';
import type { DepsApi, DepsResult, DepsStatus, WorkOptions } from '../session/api.ts';
import { toError } from './failure.ts';
import { checked, type Given } from './link.ts';
import { callAt, openAt, type Place } from './place.ts';
import { aborted, unreachable } from './transport.ts';

const NDJSON = 'application/x-ndjson';

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

  async add(requirements: string | readonly string[], options?: WorkOptions): Promise<DepsResult> {
    return await this.#change(wire.AddDeps, { body: { requirements: [requirements].flat() } }, options);
  }

  async remove(name: string, options?: WorkOptions): Promise<DepsResult> {
    return await this.#change(wire.RemoveDep, { params: { name } }, options);
  }

  async sync(options?: WorkOptions): Promise<DepsResult> {
    return await this.#change(wire.SyncDeps, {}, options);
  }

  /** Lines tell how far it is, where somebody wants to know. */
  async #change<P, Q, B>(
    endpoint: Route<P, Q, B, DepsResult>,
    given: Given<B>,
    { signal, onProgress }: WorkOptions = {},
  ): Promise<DepsResult> {
    if (!onProgress) return await callAt(this.#place, endpoint, { ...given, signal });
    const response = await openAt(this.#place, endpoint, { ...given, signal, accept: NDJSON });
    const lines = jsonLines(response);
    while (true) {
      const { value: line, done } = await lines.next().catch((cause) => {
        throw signal?.aborted ? aborted() : unreachable(this.#place.link.where, cause);
      });
      if (done) throw unreachable(this.#place.link.where, new Error('the answer has no end'));
      const failure = Failure.safeParse(line);
      if (failure.success) throw toError(failure.data.error);
      const item = checked(DepsLine, line, endpoint.path);
      if (item.type === 'result') return item.result;
      onProgress(item.text);
    }
  }
}
