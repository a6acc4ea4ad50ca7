/** What every agent does, in every place: a new adapter or place is done when this passes on it. */

import { afterAll, beforeAll, beforeEach, describe } from 'vitest';
import { adapterTests } from './adapter-tests.ts';
import type { OpenAgentEnvironment } from './agent-environment.ts';
import { agentTests } from './agent-tests.ts';
import { placeTests } from './environment-tests.ts';
import { profileTests } from './profile-tests.ts';
import { serverTests } from './server-tests.ts';
import { type AgentWords, Suite } from './suite.ts';

/**
 * `place`: what depends on where it runs. `agent`: what does not. `server`: what a server adds to it. `profile`: what it
 * was set up with. `adapter`: what cannot be asked for through a server.
 */
export type Part = 'place' | 'agent' | 'server' | 'profile' | 'adapter';

/** The first of a run brings the program, and builds an image. */
const OPENING_MS = 240_000;

export function agentContract(words: AgentWords, openEnvironment: OpenAgentEnvironment, parts: readonly Part[]): void {
  let opened: Suite | undefined;
  const suite = () => {
    if (!opened) throw new Error('the place could not be opened');
    return opened;
  };
  beforeAll(async () => {
    opened = await Suite.open(words, openEnvironment);
  }, OPENING_MS);
  beforeEach(() => suite().clear());
  afterAll(() => opened?.[Symbol.asyncDispose]());

  if (parts.includes('place')) describe('in its environment', () => placeTests(words, suite));
  if (parts.includes('server')) describe('through a server', () => serverTests(suite));
  if (parts.includes('profile')) describe('with a profile', () => profileTests(words, suite));
  if (parts.includes('agent')) describe('in every environment', () => agentTests(suite));
  if (parts.includes('adapter')) describe('called through its adapter', () => adapterTests(suite));
}
