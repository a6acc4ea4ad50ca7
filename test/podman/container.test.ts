/** What an executor promises, and a pool of containers, on Podman. */

import '../support/on-podman.ts';
import '../contract/container.test.ts';
import '../contract/container-pool.test.ts';
