/** Sessions in containers for tests, on the engine that the files of a run share. */

import { randomUUID } from 'node:crypto';
import { beforeAll } from 'vitest';
import type { SessionOptions } from '../../src/index.ts';
import { canRunDocker } from './docker.ts';
import { asAgent } from './kinds.ts';
import { lending } from './lent.ts';
import { type Open, openLasting, openSession, scratchFolder } from './session.ts';
import { shareCache } from './shared-cache.ts';
import { sharedEngineWithImage } from './shared-docker.ts';

/** Whoever comes first has the image built. */
const FIRST_MS = 300_000;

beforeAll(async () => void (canRunDocker && (await sharedEngineWithImage())), FIRST_MS);

const settings = async ({ dataDir, ...options }: SessionOptions = {}): Promise<SessionOptions> => {
  const engine = await sharedEngineWithImage();
  const folder = shareCache(dataDir ?? (await scratchFolder()));
  return { executor: 'container', engine, dataDir: folder, ...options };
};

export const openContainer: Open = async (options) => await openSession(await settings(options));

export const lendContainer: Open = lending(async (options) => await openLasting(await settings(options)));

/** A program in the container of a coding agent. */
export const openContainedAgent: Open = async (options) => await asAgent(await settings(options));

let shared: Promise<string> | undefined;

/** The same, from a container that is ready, where a test does not care whose and in which data folder. */
export const openWarmContainer: Open = async (options = {}) => {
  if (options.dataDir !== undefined || options.agentKey !== undefined) return await openContainer(options);
  shared ??= scratchFolder();
  return await openContainer({ dataDir: await shared, agentKey: randomUUID(), spares: 2, ...options });
};
