/** An image made from another Python of this machine. image-foreign.test.ts has images that owe this machine nothing. */

import { beforeAll, describe } from 'vitest';
import { connectEngine, type Engine } from '../../src/environments/container/engine.ts';
import { canRunDocker } from '../support/docker.ts';
import { bareImage } from '../support/images.ts';
import { findOtherPython, OTHER_VERSION } from '../support/other-python.ts';
import { sharedEngine } from '../support/shared-docker.ts';
import { foreignPythonContract } from './image-python.ts';

const path = findOtherPython();

describe.skipIf(!canRunDocker || path === undefined)(
  `an image of Python ${OTHER_VERSION}`,
  { timeout: 180_000 },
  () => {
    let engine: Engine;
    let image: string;

    beforeAll(async () => {
      engine = await connectEngine(await sharedEngine());
      image = await bareImage(engine, `cella-contract:py${OTHER_VERSION}`, path);
    }, 180_000);

    foreignPythonContract({ version: OTHER_VERSION, libc: 'glibc', image: () => ({ engine, image }) });
  },
);
