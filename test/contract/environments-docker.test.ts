import { describe } from 'vitest';
import { canRunDocker } from '../support/docker.ts';
import { scratchFolder } from '../support/session.ts';
import { sharedEngineWithImage } from '../support/shared-docker.ts';
import { environmentContract } from './environments.ts';

describe.skipIf(!canRunDocker)('a docker environment', () => {
  environmentContract(async () => ({
    kind: 'docker',
    folder: await scratchFolder(),
    engine: await sharedEngineWithImage(),
  }));
});
