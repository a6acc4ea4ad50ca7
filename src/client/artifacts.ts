/** The artifacts of a session at a server: their bytes are streamed both ways. */

import { chunksOf } from '../lib/line-splitter.ts';
import * as wire from '../protocol/api/namespace-routes.ts';
import type { ArtifactInfo } from '../protocol/namespace-models.ts';
import type { ArtifactsApi } from '../session/api.ts';
import { isCode } from './failure.ts';
import { callAt, everyPage, type Place } from './place.ts';
import { unreachable } from './transport.ts';

export class RemoteArtifacts implements ArtifactsApi {
  readonly #place: Place;

  constructor(place: Place) {
    this.#place = place;
  }

  async list({ after: from, limit }: Parameters<ArtifactsApi['list']>[0] = {}): Promise<readonly ArtifactInfo[]> {
    if (limit !== undefined) {
      return (await callAt(this.#place, wire.ListArtifacts, { query: { after: from, limit } })).artifacts;
    }
    return await everyPage(async (after = from) => {
      const { artifacts, next } = await callAt(this.#place, wire.ListArtifacts, { query: { after } });
      return { items: artifacts, next };
    });
  }

  async get(name: string): Promise<ArtifactInfo> {
    return await callAt(this.#place, wire.GetArtifact, { params: { name } });
  }

  async exists(name: string): Promise<boolean> {
    try {
      await this.get(name);
      return true;
    } catch (error) {
      if (isCode(error, 'ARTIFACT_NOT_FOUND')) return false;
      throw error;
    }
  }

  async save(
    name: string,
    content: Uint8Array | AsyncIterable<Uint8Array>,
    { type, mediaType, description, metadata }: Parameters<ArtifactsApi['save']>[2],
  ): Promise<ArtifactInfo> {
    const query = { type, mediaType, description, metadata: metadata && JSON.stringify(metadata) };
    return await callAt(this.#place, wire.SaveArtifact, { params: { name }, query, bytes: content });
  }

  async load(name: string): Promise<{ readonly info: ArtifactInfo; readonly chunks: AsyncIterable<Uint8Array> }> {
    const info = await this.get(name);
    const { link, id } = this.#place;
    const response = await link.open(wire.LoadArtifact, { params: { id, name } });
    return { info, chunks: telling(chunksOf(response), link.where) };
  }

  async delete(name: string): Promise<void> {
    await callAt(this.#place, wire.DeleteArtifact, { params: { name } });
  }
}

async function* telling(chunks: AsyncIterable<Uint8Array>, where: string): AsyncGenerator<Uint8Array> {
  try {
    yield* chunks;
  } catch (error) {
    throw unreachable(where, error);
  }
}
