/** Sessions in containers for tests, on the engine that the files of a run share. */

import { type Open, openSession } from './session.ts';
import { sharedEngineWithImage } from './shared-docker.ts';

export const openContainer: Open = async (options = {}) =>
  await openSession({ executor: 'container', engine: process.env.DEV_ENGINE ?? await sharedEngineWithImage(), ...options });
