/** Files of sessions on an ordinary user's host: the server has the rights of that user, and so has the code, in fewer folders. */

import { hostileFiles } from '../../server/files/hostile.ts';
import { TestServer } from '../../support/servers/server.ts';

hostileFiles(() => TestServer.start());
