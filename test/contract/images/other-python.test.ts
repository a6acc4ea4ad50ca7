/** An image made from another Python of this machine. foreign.test.ts has images that owe this machine nothing. */

import { beforeAll, describe } from 'vitest';
import { connectEngine, type Engine } from '../../../src/environments/container/engine.ts';
import { canRunDocker } from '../../support/docker/docker.ts';
import { bareImage } from '../../support/docker/images.ts';
import { sharedEngine } from '../../support/docker/shared-docker.ts';
import { findOtherPython, OTHER_VERSION } from '../../support/packages/other-python.ts';
import { foreignPythonContract } from './image.ts';

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
