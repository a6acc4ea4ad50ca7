/** Sessions in containers for tests, on the engine that the files of a run share. */

import { randomUUID } from 'node:crypto';
import { beforeAll } from 'vitest';
import type { SessionOptions } from '../../../src/index.ts';
import { asAgent } from '../../escape/kernel-origins.ts';
import { canRunDocker } from '../docker/docker.ts';
import { sharedEngineWithImage } from '../docker/shared-docker.ts';
import { shareCache } from '../run/shared-cache.ts';
import { type Open, openLasting, openSession, scratchFolder } from './session.ts';
import { lending } from './shared-kernel.ts';

/** Whoever comes first has the image built. */
const FIRST_MS = 300_000;

beforeAll(async () => void (canRunDocker && (await sharedEngineWithImage())), FIRST_MS);

interface Containers {
  readonly open: Open;
  /** From a container that is ready, where a test does not care whose and in which data folder. */
  readonly openWarm: Open;
  readonly lend: Open;
}

const settingsOf = async ({ dataDir, ...options }: SessionOptions = {}): Promise<SessionOptions> => {
  const engine = await sharedEngineWithImage();
  const folder = shareCache(dataDir ?? (await scratchFolder()));
  return { executor: 'container', engine, dataDir: folder, ...options };
};

/** Of the default image, or of another that is there when the first test asks. */
export function containersOf(image?: () => string): Containers {
  const settings = (options: SessionOptions = {}) => settingsOf({ image: image?.(), ...options });
  let shared: Promise<string> | undefined;
  const open: Open = async (options) => await openSession(await settings(options));
  const openWarm: Open = async (options = {}) => {
    if (options.dataDir !== undefined || options.agentKey !== undefined) return await open(options);
    shared ??= scratchFolder();
    return await open({ dataDir: await shared, agentKey: randomUUID(), spares: 2, ...options });
  };
  return { open, openWarm, lend: lending(async (options) => await openLasting(await settings(options))) };
}

export const { open: openContainer, openWarm: openWarmContainer, lend: lendContainer } = containersOf();

/** A program in the container of a coding agent. */
export const openContainedAgent: Open = async (options) => await asAgent(await settingsOf(options));
