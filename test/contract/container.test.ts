import { describe } from 'vitest';
import { lendContainer, openWarmContainer } from '../support/container.ts';
import { canRunDocker } from '../support/docker.ts';
import { executorContract } from './contract.ts';

describe.skipIf(!canRunDocker)('with an engine', () => executorContract('container', openWarmContainer, lendContainer));
