import { describe } from 'vitest';
import { canRunDocker } from '../../support/docker/docker.ts';
import { sharedEngineWithImage } from '../../support/docker/shared-docker.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { environmentContract } from './environment.ts';

describe.skipIf(!canRunDocker)('a docker environment', () => {
  environmentContract(async () => ({
    kind: 'docker',
    folder: await scratchFolder(),
    engine: await sharedEngineWithImage(),
  }));
});
