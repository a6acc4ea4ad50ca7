/** Images on Podman: made, listed, asked and removed, and what is wrong with some. */

import '../support/on-podman.ts';
import '../contract/image.test.ts';
import '../faults/image.test.ts';
