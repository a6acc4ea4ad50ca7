/** The same attempts to get out as a sandbox withstands, and the same limits, in a container. */

import { describe } from 'vitest';
import { resourceFaults } from '../support/bombs.ts';
import { openContainedAgent, openContainer } from '../support/container.ts';
import { canRunDocker } from '../support/docker.ts';
import { escapeAttempts } from '../support/escape.ts';

describe.skipIf(!canRunDocker)('with an engine', () => {
  escapeAttempts(openContainer, 'container');
  resourceFaults(openContainer);
  describe('a coding agent', () => escapeAttempts(openContainedAgent, 'contained agent'));
});
