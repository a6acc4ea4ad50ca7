/** The parts of a Redis storage that keep something, on one way to the server. */

import { RedisArtifacts } from './artifacts.ts';
import { RedisCheckpoints } from './checkpoints.ts';
import { RedisDeps } from './deps.ts';
import { RedisDocuments } from './documents.ts';
import { RedisEventLog } from './event-log.ts';
import type { Place } from './place.ts';
import { RedisRecords } from './records.ts';
import { RedisScopes } from './scopes.ts';
import { RedisTexts } from './texts.ts';
import { RedisTranscripts } from './transcripts.ts';

export class RedisParts {
  readonly checkpoints: RedisCheckpoints;
  readonly records: RedisRecords;
  readonly events: RedisEventLog;
  readonly transcripts: RedisTranscripts;
  readonly tools: RedisTexts;
  readonly skills: RedisTexts;
  readonly artifacts: RedisArtifacts;
  readonly deps: RedisDeps;
  readonly documents: RedisDocuments;
  readonly scopes: RedisScopes;

  constructor(place: Place) {
    this.checkpoints = new RedisCheckpoints(place);
    this.records = new RedisRecords(place);
    this.events = new RedisEventLog(place);
    this.transcripts = new RedisTranscripts(place);
    this.tools = new RedisTexts(place, 'tools', 'tool');
    this.skills = new RedisTexts(place, 'skills', 'skill');
    this.artifacts = new RedisArtifacts(place);
    this.deps = new RedisDeps(place);
    this.documents = new RedisDocuments(place);
    this.scopes = new RedisScopes(place);
  }

  async deleteAgent(agentKey: string): Promise<void> {
    await this.checkpoints.deleteAll(agentKey);
    await this.events.delete(agentKey);
    await this.transcripts.deleteAll(agentKey);
    await this.records.delete(agentKey);
  }

  /** Drops what is not finished. */
  async close(): Promise<void> {
    await Promise.all([this.checkpoints.close(), this.artifacts.close(), this.scopes.close()]);
  }
}
