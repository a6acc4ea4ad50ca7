import { describe } from 'vitest';
import { openWarmContainer } from '../support/container.ts';
import { canRunDocker } from '../support/docker.ts';
import { stateContract } from './state.ts';

describe.skipIf(!canRunDocker)('with an engine', () =>
  stateContract('container', openWarmContainer, { templated: false }),
);
