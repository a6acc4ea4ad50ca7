/** What code can use, on the host that these tests run on. */

import { FileStorage } from '../../../src/index.ts';
import { namespacesContract } from '../../contract/namespaces/namespaces.ts';
import { openSession, scratchFolder } from '../../support/kernels/session.ts';

namespacesContract('subprocess with file storage', {
  open: openSession,
  openStorage: async () => await FileStorage.open(await scratchFolder()),
});
