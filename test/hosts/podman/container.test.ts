/** What an executor promises, and a pool of containers, on Podman. */

import './on-podman.ts';
import '../../contract/executor/container.test.ts';
import '../../contract/session/container-pool.test.ts';
