/** What can befall containers, and what is tried in them, on Podman. */

import '../support/on-podman.ts';
import '../faults/container.test.ts';
import '../faults/container-hostile.test.ts';
import '../faults/container-network.test.ts';
