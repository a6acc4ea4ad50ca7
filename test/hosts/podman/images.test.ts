/** Images on Podman: made, listed, asked and removed, and what is wrong with some. */

import './on-podman.ts';
import '../../contract/images/images.test.ts';
import '../../faults/container/images.test.ts';
