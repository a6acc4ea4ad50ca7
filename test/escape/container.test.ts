/** The same attempts to get out as a sandbox withstands, and the same limits, in a container. */

import { describe } from 'vitest';
import { resourceFaults } from '../faults/kernel/resources.ts';
import { canRunDocker } from '../support/docker/docker.ts';
import { openContainedAgent, openContainer } from '../support/kernels/container.ts';
import { escapeAttempts } from './escape.ts';

describe.skipIf(!canRunDocker)('with an engine', () => {
  escapeAttempts(openContainer, 'container');
  resourceFaults(openContainer);
  describe('a coding agent', () => escapeAttempts(openContainedAgent, 'contained agent'));
});
