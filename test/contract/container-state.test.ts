import { describe } from 'vitest';
import { openWarmContainer } from '../support/container.ts';
import { canRunDocker } from '../support/docker.ts';
import { stateContract } from './state.ts';

describe.skipIf(!canRunDocker)('with Docker', () =>
  stateContract('container', openWarmContainer, { templated: false }),
);
