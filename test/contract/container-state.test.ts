import { describe } from 'vitest';
import { openContainer } from '../support/container.ts';
import { canRunDocker } from '../support/docker.ts';
import { stateContract } from './state.ts';

describe.skipIf(!canRunDocker)('with Docker', () => stateContract('container', openContainer, { templated: false }));
