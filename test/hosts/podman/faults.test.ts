/** What can befall containers, and what is tried in them, on Podman. */

import './on-podman.ts';
import '../../faults/container/container.test.ts';
import '../../faults/container/hostile-images.test.ts';
import '../../faults/container/network.test.ts';
