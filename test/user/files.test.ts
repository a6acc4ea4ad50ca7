/** Files of sessions on an ordinary user's host: the server has the rights of that user, and so has the code, in fewer folders. */

import { Daemon } from '../support/daemon.ts';
import { hostileFiles } from '../support/hostile-files.ts';

hostileFiles(() => Daemon.start());
