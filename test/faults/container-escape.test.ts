/** The same attempts to get out as a sandbox withstands, and the same limits, in a container. */

import { resourceFaults } from '../support/bombs.ts';
import { openContainer } from '../support/container.ts';
import { escapeAttempts } from '../support/escape.ts';

escapeAttempts(openContainer, 'container');
resourceFaults(openContainer);
