import { describe } from 'vitest';
import { canRunDocker } from '../../support/docker/docker.ts';
import { openWarmContainer } from '../../support/kernels/container.ts';
import { stateContract } from './state.ts';

describe.skipIf(!canRunDocker)('with an engine', () =>
  stateContract('container', openWarmContainer, { templated: false }),
);
