import { describe } from 'vitest';
import { canRunDocker } from '../../support/docker/docker.ts';
import { lendContainer, openWarmContainer } from '../../support/kernels/container.ts';
import { executorContract } from './executor.ts';

describe.skipIf(!canRunDocker)('with an engine', () => executorContract('container', openWarmContainer, lendContainer));
