/** Attempts to get out of a container, and to use more than its limits, on Podman. */

import '../support/on-podman.ts';
import '../faults/container-escape.test.ts';
