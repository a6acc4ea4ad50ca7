import { describe } from 'vitest';
import { FileStorage } from '../../../src/index.ts';
import { canRunDocker } from '../../support/docker/docker.ts';
import { openWarmContainer } from '../../support/kernels/container.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { everything } from '../../support/run/depth.ts';
import { namespacesContract } from './namespaces.ts';

describe.skipIf(!canRunDocker)('with an engine', () => {
  namespacesContract('container with file storage', {
    open: openWarmContainer,
    openStorage: async () => await FileStorage.open(await scratchFolder()),
    short: !everything,
  });
});
