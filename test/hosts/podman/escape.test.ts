/** Attempts to get out of a container, and to use more than its limits, on Podman. */

import './on-podman.ts';
import '../../escape/container.test.ts';
