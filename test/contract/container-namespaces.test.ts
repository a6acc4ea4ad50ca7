import { describe } from 'vitest';
import { FileStorage } from '../../src/index.ts';
import { openWarmContainer } from '../support/container.ts';
import { everything } from '../support/depth.ts';
import { canRunDocker } from '../support/docker.ts';
import { scratchFolder } from '../support/session.ts';
import { namespacesContract } from './namespaces.ts';

describe.skipIf(!canRunDocker)('with an engine', () => {
  namespacesContract('container with file storage', {
    open: openWarmContainer,
    openStorage: async () => await FileStorage.open(await scratchFolder()),
    short: !everything,
  });
});
